"""RULER: rows of the published structure, within their length, that a model which copies answers completely."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from multiform.errors import ConfigError, DataError
from multiform.scoring.metrics import build_metric
from multiform.scoring.outcome import TextOutcome
from multiform.tasks.datasets.ruler import NEEDLES, TOKENS, generate
from tests.conftest import ROOT

MIRROR = ROOT.parent / "shared" / "data"


@pytest.fixture
def essay(tmp_path: Path) -> str:
    path = tmp_path / "essay.txt"
    path.write_text("A river runs through the town. People like it! Why? Nobody can say.\n" * 50, encoding="utf-8")
    return str(path)


def rows(task: str, **options: Any) -> list[dict[str, Any]]:
    return generate(ruler_task=task, **{"samples": 8, "max_seq_lengths": [1024], **options})["test"]


def copied(row: dict[str, Any]) -> str:
    """What a model says that copies every value which the text gives for the keys of its question."""
    _, _, asked = row["input"].rpartition("\n")
    found = re.findall(r"special magic \w+ for (\S+) is: (\S+)\.", row["input"])
    return ", ".join(value for key, value in found if re.search(rf"(?<![\w-]){key}(?![\w-])", asked))


@pytest.mark.parametrize("task", NEEDLES)
def test_a_model_that_copies_finds_every_needle(task: str, essay: str) -> None:
    settings, recall = NEEDLES[task], build_metric({"metric": "contained"})
    for row in rows(task, haystack=essay):
        outcome = TextOutcome(prediction=copied(row), references=tuple(row["outputs"]))
        assert recall(outcome) == 1.0
        assert len(row["outputs"]) == settings.num_values * settings.num_queries
        assert len(copied(row).split(", ")) == len(row["outputs"])  # and nothing else


@pytest.mark.parametrize("task", [*NEEDLES, "vt", "cwe", "fwe"])
def test_prompts_fill_the_length_and_do_not_exceed_it(task: str, essay: str) -> None:
    for length in (1024, 4096):
        made = rows(task, max_seq_lengths=[length], haystack=essay)
        assert {row["max_length"] for row in made} == {length}
        assert all(0.85 * length <= row["length"] <= length for row in made)


def test_a_chain_of_variables_can_be_followed() -> None:
    for row in rows("vt"):
        value = re.search(r"value (\d+)", row["gen_prefix"])
        assert value is not None
        known: dict[str, str] = {}
        for name, source in re.findall(r"VAR (\w{5}) = (?:VAR )?(\w+)", row["input"]):
            known[name] = known.get(source, source)
        assert [name for name, held in known.items() if held == value[1]] == row["outputs"]
        assert len(row["outputs"]) == 5


def test_the_most_frequent_words_are_the_answer() -> None:
    for row in rows("fwe"):
        words = re.findall(r"\b[a-z]{6}\b", row["input"].split("\n")[1])
        ranked = sorted(set(words), key=lambda word: -words.count(word))
        assert ranked[:3] == row["outputs"]
    for row in rows("cwe", max_seq_lengths=[4096]):
        words = re.findall(r"\d+\. (\w+)", row["input"].split("\n")[-2])
        assert {word for word in words if words.count(word) == 30} == set(row["outputs"])
        assert all(words.count(word) in (3, 30) for word in words)


def test_questions_come_with_the_passage_that_answers_them() -> None:
    if not (MIRROR / "rajpurkar/squad_v2/squad_v2/validation.jsonl").is_file():
        pytest.skip(f"no rows of SQuAD 2 at {MIRROR}")
    for row in rows("qa_1", dataset_mirror=MIRROR, max_seq_lengths=[2048]):
        assert any(answer in row["input"] for answer in row["outputs"])
        assert "Document 2:" in row["input"]


def test_rows_are_the_same_for_a_seed() -> None:
    assert rows("niah_multikey_2") == rows("niah_multikey_2")
    assert rows("niah_multikey_2") != rows("niah_multikey_2", seed=1)
    assert len(TOKENS) == 13


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ruler_task": "niah_single_4"}, "no task 'niah_single_4'"),
        ({"ruler_task": "vt", "max_seq_lengths": 4096}, "expected a list of lengths"),
        ({"ruler_task": "vt", "max_seq_lengths": [40]}, "too few"),
        ({"ruler_task": "niah_single_2", "haystack": "/nowhere"}, "cannot be read"),
    ],
)
def test_bad_settings_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ConfigError, DataError), match=message):
        generate(**options)
