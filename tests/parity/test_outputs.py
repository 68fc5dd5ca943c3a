"""The files and tables of lm-eval's command line and ours, on the same tasks with the same random model."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from multiform import read_results
from multiform.cli.main import main
from multiform.report import write_report
from multiform.report.leaderboard import headlines
from multiform.report.runs import Runs
from multiform.results.run_comparison import compare_runs
from tests.parity.tiny_model import save_tiny_model

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

DATA = """\
dataset_path: json
dataset_kwargs:
  data_files:
    test: {rows}
test_split: test
"""
CHOICE = """\
output_type: multiple_choice
fewshot_split: test
num_fewshot: 1
doc_to_text: "{word}: {{{{question}}}}\\nAnswer:"
doc_to_choice: choices
doc_to_target: answer
metric_list:
  - metric: acc
    aggregation: mean
    higher_is_better: true
  - metric: acc_norm
metadata:
  version: 1.0
"""
WRITE = r"""
output_type: generate_until
fewshot_split: test
doc_to_text: "Question: {{question}}\nAnswer:"
doc_to_target: "{{choices[answer]}}"
description: "Answer in a word.\n\n"
generation_kwargs:
  until: ["\n"]
  max_gen_toks: 6
  do_sample: false
repeats: 2
metric_list:
  - metric: exact_match
    aggregation: mean
    higher_is_better: true
    ignore_case: true
filter_list:
  - name: strict
    filter:
      - function: regex
        regex_pattern: "(\\d+)"
      - function: take_first
  - name: loose
    filter:
      - function: take_first
metadata:
  version: 2.0
"""
ROLL = """\
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: text
metric_list:
  - metric: word_perplexity
  - metric: byte_perplexity
  - metric: bits_per_byte
"""
GROUP = """\
group: o_group
group_alias: a group
task: [o_choice, o_other]
aggregate_metric_list:
  - metric: acc
    aggregation: mean
    weight_by_size: true
metadata:
  version: 3.0
"""
CODE = """\
output_type: generate_until
fewshot_split: test
doc_to_text: !function utils.text
doc_to_target: "{{choices}}"
process_results: !function utils.results
generation_kwargs: {until: ["?"], max_gen_toks: 4}
metric_list:
  - {metric: mine, aggregation: mean, higher_is_better: true}
  - {metric: other, aggregation: mean, higher_is_better: false}
"""
ALL_CHOICE_METRICS = """\
fewshot_split: test
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_choice: choices
doc_to_target: answer
process_docs: !function utils.same
metric_list: [{metric: acc}, {metric: exact_match}, {metric: brier_score}, {metric: acc_norm}]
"""
TRANSLATE = """\
fewshot_split: test
output_type: generate_until
doc_to_text: !function utils.text
doc_to_target: !function utils.target
generation_kwargs: {until: ["?"], max_gen_toks: 4}
metric_list: [{metric: ter}, {metric: chrf}, {metric: exact_match}, {metric: bleu}]
"""
PASS = """\
fewshot_split: test
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "{{choices[answer]}}"
generation_kwargs: {until: ["?"], max_gen_toks: 4}
metric_list:
  - {metric: !function utils.pass_at_k, aggregation: mean, higher_is_better: true, k: [1]}
filter_list:
  - name: built
    filter: [{function: custom, filter_fn: !function utils.build}]
"""
UTILS = """\
def same(docs):
    return docs


def target(doc):
    return doc["choices"][0]


def pass_at_k(references, predictions, k=None):
    return {"pass@1": float(references[0] in predictions[0][0])}


def build(resps, docs):
    return [[doc["question"] + answer for answer in resp] for resp, doc in zip(resps, docs)]


def text(doc):
    return "Q: " + doc["question"]


def results(doc, results):
    return {"mine": float(len(results[0])), "other": 1.0}
"""
BARE = "group: o_bare\ntask: [o_code]\n"
ROWS = [
    {
        "question": f"What is {i} and {i}? Größe",
        "choices": [str(2 * i), str(2 * i + 1), "dog"],
        "answer": i % 3,
        "text": f"The dog {i} sat on the mat. " * 3,
    }
    for i in range(8)
]
FLAGS = [
    *("--model", "hf", "--model_args", "pretrained=org/tiny,dtype=float32", "--device", "cpu", "--batch_size", "4"),
    *("--tasks", "o_group", "o_write,o_roll,o_bare,o_all,o_translate,o_pass", "--include_path", "tasks"),
    *("--limit", "6", "--log_samples"),
]
CHAT = ["--apply_chat_template", "--system_instruction", "Be brief.", "--num_fewshot", "2"]

#: Keys that lm-eval does not have.
OURS = [
    *("intervals", "forms", "status", "failures", "date_iso", "multiform_version", "model_identity", "usage"),
    *("config/num_fewshot", "config/generation_config", "config/arguments", "config/model_warnings", "weight_by_size"),
]
#: Keys of a samples file that lm-eval does not have; they come after all of its own.
OURS_IN_SAMPLES = [
    *("prediction", "gold", "choices", "labels", "loglikelihoods", "is_greedy", "num_tokens", "tied_choices"),
    *("completions_truncated", "finish_reasons", "contexts_truncated", "steps"),
]
#: Values that differ from run to run, or that say more here: the content of a local model, a standard error.
OTHERWISE = [
    *("date", "pretty_env_info", "total_evaluation_time_seconds", "config/model_sha"),
    "results/o_roll/bits_per_byte_stderr,none",
    "results/o_all/brier_score_stderr,none",
    # The place of a function in memory there, its name here.
    *("configs/*/fewshot_config/doc_to_t*", "configs/*/fewshot_config/process_docs"),
    "configs/o_pass/filter_list/0/filter/0/filter_fn",
]
#: Values of samples that say more here: the score of the document for gold and probabilities as text.
OTHERWISE_IN_SAMPLES = ["samples_o_all_DATE.jsonl/*/brier_score"]


@contextlib.contextmanager
def own_tasks_alone() -> Iterator[None]:
    """Keeps lm-eval from reading its fourteen thousand files."""
    from lm_eval.tasks import TaskManager

    made = TaskManager.__init__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TaskManager, "__init__", lambda self, **given: made(self, **given, include_defaults=False))
        yield


class Run:
    """A folder in which both command lines have run."""

    def __init__(self, folder: Path, flags: list[str]) -> None:
        self.folder = folder
        self.tables = {"theirs": self._theirs(flags), "ours": self._ours(flags)}

    def _theirs(self, flags: list[str]) -> str:
        from lm_eval.__main__ import cli_evaluate

        with own_tasks_alone(), pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["lm_eval", "run", *flags, "--output_path", "theirs"])
            with contextlib.redirect_stdout(io.StringIO()) as out:
                cli_evaluate()
        return out.getvalue()

    def _ours(self, flags: list[str]) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            assert main(["run", *flags, "--output_path", "ours", "--no_cache", "--table", "markdown"]) == 0
        return out.getvalue()

    def results(self, whose: str) -> dict[str, Any]:
        [file] = (self.folder / whose).rglob("results_*.json")
        made: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return made

    def samples(self, whose: str) -> dict[str, list[dict[str, Any]]]:
        files = {undated(file): file for file in (self.folder / whose).rglob("samples_*.jsonl")}
        return {
            name: [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line]
            for name, file in files.items()
        }

    def files(self, whose: str) -> list[str]:
        root = self.folder / whose
        return sorted(f"{file.parent.relative_to(root)}/{undated(file)}" for file in root.rglob("*.json*"))


def undated(file: Path) -> str:
    return re.sub(r"_\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d+", "_DATE", file.name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, lm_eval_tasks: Path) -> Iterator[Path]:
    pytest.importorskip("torch", reason="torch is not installed: pip install 'multiform[hf]'")
    path = tmp_path_factory.mktemp("outputs")
    save_tiny_model(path / "org" / "tiny")
    (path / "tasks").mkdir()
    rows = path / "tasks" / "rows.json"
    rows.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    data = DATA.format(rows=rows)
    tasks = {
        "o_choice": data + CHOICE.format(word="Question"),
        "o_other": data + CHOICE.format(word="Q"),
        "o_write": data + WRITE,
        "o_roll": data + ROLL,
        "o_code": data + CODE,
        "o_all": data + ALL_CHOICE_METRICS,
        "o_translate": data + TRANSLATE,
        "o_pass": data + PASS,
    }
    for name, text in tasks.items():
        (path / "tasks" / f"{name}.yaml").write_text(f"task: {name}\n{text}", encoding="utf-8")
    for name, text in {"o_group.yaml": GROUP, "o_bare.yaml": BARE, "utils.py": UTILS}.items():
        (path / "tasks" / name).write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield path


@pytest.fixture(scope="module", params=["plain", "chat"])
def run(request: pytest.FixtureRequest, folder: Path) -> Iterator[Run]:
    place = folder / request.param
    place.mkdir()
    for name in ("tasks", "org"):
        shutil.copytree(folder / name, place / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        yield Run(place, FLAGS + (CHAT if request.param == "chat" else []))


def differences(theirs: Any, ours: Any, path: str = "") -> Iterator[str]:
    """What is not as in lm-eval: a missing or added key, another type, another value."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        yield from (f"{path}{key}: missing" for key in theirs.keys() - ours.keys())
        yield from (f"{path}{key}: added" for key in ours.keys() - theirs.keys())
        for key in theirs.keys() & ours.keys():
            yield from differences(theirs[key], ours[key], f"{path}{key}/")
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for index, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            yield from differences(one, other, f"{path}{index}/")
    elif not same(theirs, ours):
        yield f"{path.removesuffix('/')}: {theirs!r:.200} is {ours!r:.200}"


def same(theirs: Any, ours: Any) -> bool:
    """Equal, of one type; numbers, which may be written as text, to five digits."""
    if theirs == ours:
        return type(theirs) is type(ours)
    try:
        return type(theirs) is type(ours) and float(ours) == pytest.approx(float(theirs), rel=1e-5)
    except (TypeError, ValueError):
        return False


def unexpected(found: Iterator[str]) -> list[str]:
    """Those that are neither an added key of ours nor a value that may differ."""
    allowed = [*(f"{key}: added" for key in OURS), *(f"{key}: *" for key in (*OTHERWISE, *OTHERWISE_IN_SAMPLES))]
    return sorted(line for line in found if not any(fnmatch(line, one.replace("[", "[[]")) for one in allowed))


def test_files_have_the_same_names(run: Run):
    costs = "org__tiny/costs_DATE.jsonl"  # tokens and time of completions, which lm-eval does not have
    assert [name for name in run.files("ours") if name != costs] == run.files("theirs")
    assert "org__tiny/results_DATE.json" in run.files("theirs")


def test_results_have_the_keys_types_and_values_of_lm_eval(run: Run):
    assert unexpected(differences(run.results("theirs"), run.results("ours"))) == []


def test_keys_of_results_are_in_the_order_of_lm_eval(run: Run):
    theirs, ours = run.results("theirs"), run.results("ours")
    assert [key for key in ours if key in theirs] == list(theirs)
    for key in ("results", "configs", "config", "versions", "n-shot"):
        assert [inner for inner in ours[key] if inner in theirs[key]] == list(theirs[key])
    for task, config in theirs["configs"].items():
        assert list(ours["configs"][task]) == list(config)
        assert list(ours["results"][task]) == list(theirs["results"][task])


def test_hashes_of_tasks_are_those_of_lm_eval(run: Run):
    assert run.results("ours")["task_hashes"] == run.results("theirs")["task_hashes"]
    assert len(run.results("theirs")["task_hashes"]) == 8


def test_samples_have_the_keys_types_and_values_of_lm_eval(run: Run):
    theirs, written = run.samples("theirs"), run.samples("ours")
    ours = {
        name: [{key: line[key] for key in line if key not in OURS_IN_SAMPLES} for line in lines]
        for name, lines in written.items()
    }
    for lines in written.values():
        assert all(set(list(line)[-2:]) <= set(OURS_IN_SAMPLES) for line in lines)
    assert unexpected(differences(theirs, ours)) == []
    assert [len(lines) for lines in theirs.values()].count(12) == 1  # one task has two filters
    for name, lines in theirs.items():
        assert [list(line) for line in ours[name]] == [list(line) for line in lines]


def cells(table: str) -> list[list[str]]:
    """The cells of Markdown tables, without the rules between the head and the rows."""
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows if set("".join(row)) - set("-:")]


def test_tables_have_the_columns_rows_and_numbers_of_lm_eval(run: Run):
    theirs, ours = cells(run.tables["theirs"]), cells(run.tables["ours"])
    assert len(theirs) == len(ours) == 24
    for expected, got in zip(theirs, ours, strict=True):
        if {"bits_per_byte", "brier_score"} & set(expected):  # have a standard error here
            expected, got = expected[:-1], got[:-1]
        assert [number(cell) for cell in got] == [number(cell) for cell in expected]


def number(cell: str) -> Any:
    try:
        return pytest.approx(float(cell), rel=1e-3)
    except ValueError:
        return cell


def test_the_line_above_the_table_is_that_of_lm_eval(run: Run):
    line = "hf ({'pretrained': 'org/tiny', 'dtype': 'float32'}), gen_kwargs: ({}), limit: 6.0"
    assert line in run.tables["theirs"]
    assert line in run.tables["ours"]


def test_both_folders_read_back_alike(run: Run) -> None:
    theirs, ours = (read_results(run.folder / whose) for whose in ("theirs", "ours"))
    assert list(theirs) == list(ours)
    columns = ("form", "filter", "doc_id", "prompt", "choices", "gold", "picked", "raw")
    for row, other in zip(theirs.samples(), ours.samples(), strict=True):
        alike = [name for name in columns if row[name] != other[name]]
        assert alike in ([], ["gold"]), (row, other)  # lm-eval does not say which index a text is


def test_a_folder_of_lm_eval_opens_in_report_viewer_and_comparison(run: Run) -> None:
    theirs, ours = (read_results(run.folder / whose) for whose in ("theirs", "ours"))
    page = write_report([theirs], run.folder / "report.html").read_text(encoding="utf-8")
    assert "<title>" in page
    (listed,) = Runs(run.folder / "theirs").run_lines()
    assert listed["harness"] == "lm-eval"
    assert {score["form"] for score in listed["scores"]} == {entry.name for entry in headlines(theirs)}
    for change in compare_runs(theirs, ours):
        assert change.difference.value == pytest.approx(0, abs=1e-4 * max(1, abs(change.first.value)))
        named = ("filter_list",) if change.name == "o_pass" else ()  # the place of a function in memory, and its name
        assert change.settings == named
