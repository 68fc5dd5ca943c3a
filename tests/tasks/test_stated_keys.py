"""What a task states is told from what it resolves to."""

from __future__ import annotations

import builtins
import copy
import dataclasses
import pickle
from pathlib import Path
from typing import Any

import pytest

from multiform import TaskConfig
from multiform.tasks.keys import Source, StatedKeys
from multiform.tasks.resolve import resolve
from multiform.tasks.yaml import read_yaml

FIELDS: dict[str, Any] = {"task": "t", "doc_to_text": "q", "doc_to_choice": "options", "doc_to_target": "key"}


def test_a_default_is_not_stated_and_the_same_value_that_is_set_is():
    assert "output_type" not in TaskConfig(**FIELDS).stated.data
    config = TaskConfig(**FIELDS, output_type="generate_until", multiple_targets=False)
    assert (config.stated.get("output_type"), config.stated.get("multiple_targets")) == ("generate_until", False)
    assert config == TaskConfig(**FIELDS)
    assert (config.output_type_stated, TaskConfig(**FIELDS).output_type_stated) == (True, False)


def test_a_format_replaces_fields_and_not_what_is_stated():
    config = TaskConfig(**FIELDS, formats="mcqa")
    assert config.stated.get("doc_to_target") == config.stated_mapping.answer == "key"
    assert config.doc_to_target != "key"


def test_a_change_is_stated_and_keeps_the_place_of_the_others(tmp_path: Path):
    file = tmp_path / "t.yaml"
    file.write_text("task: t\ndoc_to_text: q\ndoc_to_target: a\n")
    config = TaskConfig.from_stated(read_yaml(file)).replace(num_fewshot=2)
    assert config.stated.data == {"task": "t", "doc_to_text": "q", "doc_to_target": "a", "num_fewshot": 2}
    assert str(config.where("doc_to_target")).endswith("t.yaml:3: doc_to_target")


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda config: pickle.loads(pickle.dumps(config))])
def test_a_copy_states_the_same(copied):
    config = TaskConfig.from_stated(StatedKeys({**FIELDS, "formats": "mcqa"}, Source(Path("t.yaml"))))
    assert copied(config) == config
    assert copied(config).stated == config.stated
    assert copied(config).to_dict() == config.to_dict()


def test_a_configuration_can_be_replaced_field_by_field():
    config = dataclasses.replace(TaskConfig(**FIELDS), num_fewshot=3)
    assert (config.num_fewshot, config.stated.get("num_fewshot")) == (3, 3)


def test_resolving_reads_no_file(monkeypatch: pytest.MonkeyPatch):
    stated = TaskConfig(**FIELDS, formats="mcqa").stated.with_keys(use_prompt="prompts.yaml:short")
    monkeypatch.setattr(builtins, "open", None)
    monkeypatch.setattr(Path, "open", None)
    values = resolve(stated, {"doc_to_text": "{{other}}"}, where=stated.where)
    assert values["stated_mapping"].question == "{{other}}"
    assert values["output_type"] == "multiple_choice"
