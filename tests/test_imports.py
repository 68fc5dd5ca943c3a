"""Task files that import modules which a library no longer has."""

from __future__ import annotations

import sys

import pytest

from multiform.errors import ConfigError
from multiform.tasks.functions import resolve_functions
from multiform.tasks.yaml import read_yaml

pytest.importorskip("transformers")


@pytest.fixture
def function(tmp_path):
    """Gives the function `score` of a file with this source."""

    def load(source: str):
        (tmp_path / "utils.py").write_text(source, encoding="utf-8")
        (tmp_path / "task.yaml").write_text("process_results: !function utils.score\n", encoding="utf-8")
        return resolve_functions(read_yaml(tmp_path / "task.yaml").data)["process_results"]

    return load


@pytest.mark.parametrize(
    "imports",
    [
        "import transformers.data.metrics.squad_metrics as squad_metrics",
        "from transformers.data.metrics import squad_metrics",
    ],
)
def test_word_overlap_of_squad_is_there_under_the_name_that_transformers_gave_it(function, imports):
    scores = "squad_metrics.compute_exact(gold, text), squad_metrics.compute_f1(gold, text)"
    score = function(f"{imports}\n\ndef score(gold, text):\n    return {scores}\n")
    assert score("The Eiffel Tower", "eiffel tower.") == (1, 1.0)
    assert score("the red house", "a red car") == (0, 0.5)
    assert score("yes", "no") == (0, 0.0)
    assert score("the", "") == (1, 1.0)


def test_other_modules_that_are_not_there_are_still_missing(function):
    with pytest.raises(ConfigError, match=r"No module named 'transformers\.data\.nothing'; install what utils\.py:1"):
        function("import transformers.data.nothing\n")


def test_removed_modules_are_provided_only_while_a_task_file_is_loaded(function):
    before = list(sys.meta_path)
    function("from transformers.data.metrics import squad_metrics\n\ndef score():\n    pass\n")
    assert [finder for finder in sys.meta_path if "RemovedFinder" in type(finder).__name__] == []
    assert set(before) <= set(sys.meta_path)
