"""Datasets of the hub: what is asked for, and one message for each way in which they cannot be had."""

from __future__ import annotations

import logging
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import httpx
import pytest
from datasets.exceptions import DatasetNotFoundError, ManualDownloadError
from huggingface_hub import errors as hub

from multiform import TaskConfig
from multiform.errors import DataError
from multiform.tasks.datasets.documents import load_dataset
from multiform.tasks.datasets.hub import hub_dataset, progress_on_terminal
from tests.cli.conftest import Folder
from tests.cli.conftest import folder as folder

COMMIT = "0123456789abcdef0123456789abcdef01234567"
ROWS = [{"question": "Which is a colour?", "options": ["red", "seven"], "label": 0}]


def config(**keys: Any) -> TaskConfig:
    return TaskConfig(
        task="t",
        dataset_path="org/set",
        dataset_name="small",
        test_split="test",
        fewshot_split="dev",
        dataset_kwargs={"revision": COMMIT},
        **keys,
    )


def response(status: int) -> Any:
    return httpx.Response(status, request=httpx.Request("GET", "https://huggingface.co"))


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


FAILURES = {
    "no network": (ConnectionError("Couldn't reach 'org/set' on the Hub (ConnectError)"), "cannot be reached"),
    "timeout": (httpx.ConnectTimeout("timed out"), "cannot be reached"),
    "offline": (hub.OfflineModeIsEnabled("offline"), "HF_HUB_OFFLINE is set"),
    "moved revision": (
        caused(
            DatasetNotFoundError(f"Revision '{COMMIT}' doesn't exist for dataset 'org/set' on the Hub."),
            hub.RevisionNotFoundError("404", response=response(404)),
        ),
        f"has no revision '{COMMIT}'",
    ),
    "gated": (
        caused(
            DatasetNotFoundError("Dataset 'org/set' is a gated dataset on the Hub. You must be authenticated."),
            hub.GatedRepoError("401 Client Error", response=response(401)),
        ),
        "hf auth login",
    ),
    "conditions to accept": (
        hub.GatedRepoError("403 Client Error: you are not in the authorized list", response=response(403)),
        "this account has no access; accept its conditions at https://huggingface.co/datasets/org/set",
    ),
    "licence": (ManualDownloadError("accept the terms"), "after its licence is accepted"),
    "unknown": (DatasetNotFoundError("Dataset 'org/set' doesn't exist on the Hub"), "does not exist on the hub"),
    "script": (RuntimeError("Dataset scripts are no longer supported, but found set.py"), "refs/convert/parquet"),
    "anything": (OSError(28, "No space left on device"), "No space left on device"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_each_failure_is_one_message_that_says_which_files_to_save(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    error, expected = FAILURES[name]

    def fail(**_: Any) -> None:
        raise error

    monkeypatch.setattr(datasets, "load_dataset", fail)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    mirrors = Path(f"{tmp_path}/a{os.pathsep}{tmp_path}/b")
    with pytest.raises(DataError) as caught:
        load_dataset(config(), mirrors)
    message = str(caught.value)
    assert expected in message
    assert f"{tmp_path}/a/org/set/small/test.jsonl, {tmp_path}/a/org/set/small/dev.jsonl (or .parquet)" in message
    assert f"looked in {tmp_path}/a and {tmp_path}/b" in message
    assert "\n" not in message


def test_an_unknown_configuration_names_those_that_there_are(monkeypatch: pytest.MonkeyPatch):
    def fail(**_: Any) -> None:
        raise ValueError("BuilderConfig 'small' not found. Available: ['smaller', 'large']")

    monkeypatch.setattr(datasets, "load_dataset", fail)
    with pytest.raises(DataError, match="has no configuration 'small'; did you mean 'smaller'"):
        load_dataset(config())


def test_the_pinned_revision_is_asked_for(monkeypatch: pytest.MonkeyPatch):
    asked: dict[str, Any] = {}

    def load(**kwargs: Any) -> Any:
        asked.update(kwargs)
        return {"test": loaded(COMMIT)}

    monkeypatch.setattr(datasets, "load_dataset", load)
    assert hub_dataset(config())["test"] == ROWS
    assert asked == {"path": "org/set", "name": "small", "revision": COMMIT}


def loaded(commit: str) -> Any:
    table = datasets.Dataset.from_list(ROWS)
    table.info.download_checksums = {f"hf://datasets/org/set@{commit}/small/test.parquet": {}}
    return table


def test_rows_of_another_revision_in_the_cache_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(datasets, "load_dataset", lambda **_: {"test": loaded(COMMIT[::-1])})
    with pytest.raises(DataError, match="the cache of datasets has revision 76543210fedc, and 0123456789ab is pinned"):
        hub_dataset(config())


@pytest.mark.parametrize("terminal", [True, False])
def test_downloads_show_progress_on_a_terminal_only(terminal: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda: terminal, write=len, flush=lambda: None))
    with progress_on_terminal():
        bar = datasets.utils.tqdm(total=1)
        assert bar.disable is not terminal
        bar.close()
    assert datasets.utils.tqdm(total=1).disable


def test_a_command_line_without_network_says_which_files_to_save_where(folder: Folder):
    folder.write({"task.yaml": "task: t\ndataset_path: org/set\ntest_split: test\nformats: mcqa\ndoc_to_choice: c\n"})
    ran = folder.run("run", "task.yaml", "--model", "dummy")
    assert ran.code == 2
    assert ran.errors == [
        "error: task.yaml:2: dataset_path: dataset 'org/set' is not on this machine, and the hub cannot be reached "
        "(HF_HUB_OFFLINE is set); save its files as DIR/org/set/default/test.jsonl (or .parquet) and add "
        "--dataset_mirror DIR"
    ]


def test_a_renamed_column_is_named_with_the_columns_that_there_are(folder: Folder):
    folder.rows(*ROWS, name="mirror/org/set/default/test.jsonl")
    task = "task: t\ndataset_path: org/set\ntest_split: test\nformats: mcqa\ndoc_to_choice: c\n"
    folder.write({"task.yaml": f"{task}dataset_kwargs: {{revision: main}}\n"})
    ran = folder.run("run", "task.yaml", "--model", "dummy", "--dataset_mirror", "mirror")
    assert ran.code == 2
    assert len(ran.errors) == 1
    assert "no column 'c' in org/set; the columns are: label, options, question" in ran.errors[0]
    assert "rename_columns" in ran.errors[0]


def test_a_long_wait_for_the_hub_is_announced(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail_late(**_: Any) -> None:
        time.sleep(0.5)
        raise ConnectionError("no network")

    monkeypatch.setattr("multiform.tasks.datasets.hub._PATIENCE", 0.05)
    monkeypatch.setattr(datasets, "load_dataset", fail_late)
    monkeypatch.setattr(logging.getLogger("multiform"), "propagate", True)
    with caplog.at_level("INFO", "multiform"), pytest.raises(DataError, match="org/set"):
        hub_dataset(config())
    assert "waiting for the hub" in caplog.text
