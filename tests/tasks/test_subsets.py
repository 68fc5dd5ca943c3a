"""Groups with `subsets`: one file for the tasks of a dataset's subsets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from multiform import ConfigError, TaskManager, evaluate

FILE: dict[str, Any] = {
    "group": "fam",
    "task": "fam_<subset>",
    "subsets": {"de": {"word": "Ja"}, "fr": {"word": "Oui"}},
    "dataset_path": "data",
    "dataset_name": "<subset>",
    "test_split": "test",
    "doc_to_text": "q",
    "doc_to_choice": ["<word>", "<subset>"],
    "doc_to_target": 0,
    "formats": "mcqa",
    "metadata": {"language": "<subset>", "title": "Family", "kind": "quiz", "licence": "MIT", "rows": 3},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, number in (("de", 1), ("fr", 3)):
        (tmp_path / "data" / name).mkdir(parents=True)
        rows = [json.dumps({"q": f"{name} {i}?"}) for i in range(number)]
        (tmp_path / "data" / name / "test.jsonl").write_text("\n".join(rows), encoding="utf-8")
    return tmp_path


def write(folder: Path, **keys: Any) -> TaskManager:
    (folder / "fam.yaml").write_text(yaml.safe_dump({**FILE, **keys}, sort_keys=False), encoding="utf-8")
    return TaskManager(folder, library=False)


def test_each_subset_is_a_task_with_its_values(folder: Path):
    [config] = write(folder).load("fam_fr")
    assert (config.task, config.dataset_name, config.stated_mapping.choices) == ("fam_fr", "fr", ["Oui", "fr"])
    assert config.metadata["language"] == "fr"


def test_the_group_has_all_of_them_and_globs_find_them(folder: Path):
    manager = write(folder)
    assert [config.form_name for config in manager.load("fam@cloze")] == ["fam_de@cloze", "fam_fr@cloze"]
    assert [config.task for config in manager.load("fam_*")] == ["fam_de", "fam_fr"]
    assert manager.index.names("task") == ["fam_de", "fam_fr"]
    assert manager.index.names("group") == ["fam"]


def test_the_score_of_the_group_is_that_of_all_documents(folder: Path):
    write(folder)
    results = evaluate(model="dummy", tasks="fam", include_path=folder, limit=None)
    values = [results[name]["acc,none"] for name in ("fam_de", "fam_fr", "fam")]
    assert values[2] == pytest.approx((values[0] + 3 * values[1]) / 4)


def test_a_subset_without_a_value_of_the_others_is_an_error(folder: Path):
    with pytest.raises(ConfigError, match=r"fam\.yaml:\d+.*'fr' has other values than the first subset"):
        write(folder, subsets={"de": {"word": "Ja"}, "fr": {}}).load(str(folder / "fam.yaml"))


def test_a_wrong_family_is_a_broken_file_of_the_index(folder: Path):
    [error] = write(folder, task="fam").index.broken.values()
    assert "fam.yaml:2: task: expected a name with <subset> in it" in str(error)


def test_the_name_of_the_tasks_has_to_name_the_subset(folder: Path):
    with pytest.raises(ConfigError, match="expected a name with <subset> in it"):
        write(folder, task="fam").load(str(folder / "fam.yaml"))


def test_subsets_with_blanks_give_names_without(folder: Path):
    manager = write(folder, subsets=["us law"], doc_to_choice=["yes", "no"])
    assert manager.index.names("task") == ["fam_us_law"]
    assert manager.load("fam_us_law")[0].dataset_name == "us law"
