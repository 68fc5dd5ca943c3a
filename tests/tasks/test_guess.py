"""Guessed field mappings, compared with the library's own on real rows, and on made-up ones."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from multiform import Task, TaskConfig, TaskManager
from multiform.cli.validate import task_text
from multiform.errors import MultiformError
from multiform.paths import mirror_path
from multiform.tasks.guess import guess_mapping
from tests.cli.conftest import Folder
from tests.cli.conftest import folder as folder
from tests.conftest import ROOT

MIRRORS = [ROOT.parent / "shared" / name for name in ("rows", "data")]
#: Forty tasks of the library whose datasets are unlike: lists, columns, labels, numbers, spellings, solutions.
TASKS = """\
aime24 aime25 anli_r1 aqua_rat arc_easy asdiv belebele_deu_Latn boolq cb commonsense_qa copa gsm8k
gsm_plus headqa_en hellaswag logiqa math_algebra math500 mathqa medmcqa medqa_4options mgsm_de mmlu_anatomy mmlu_pro
mnli musr_murder_mysteries nq_open openbookqa piqa pubmedqa sciq simpleqa social_iqa squad svamp swag triviaqa webqs
winogrande xwinograd_en
""".split()  # noqa: SIM905
DOCS = 30


@pytest.mark.long
def test_thirty_of_forty_mappings_are_right_as_they_are(capsys: pytest.CaptureFixture[str]):
    missing = [str(folder) for folder in MIRRORS if not folder.is_dir()]
    if missing:
        pytest.skip(f"no benchmark rows at {', '.join(missing)}")
    wrong = {name: problem for name in TASKS if (problem := difference(name)) is not None}
    with capsys.disabled():
        print(f"\nmultiform new: {len(TASKS) - len(wrong)} of {len(TASKS)} mappings are right")
        for name, problem in wrong.items():
            print(f"  {name}: {problem}")
    assert len(TASKS) == 40
    assert len(TASKS) - len(wrong) >= 30


def difference(name: str) -> str | None:
    """What a guessed mapping gives otherwise than the library's, on the first documents; None if nothing."""
    config = TaskManager().load(name)[0]
    label = "cloze" if config.stated.get("doc_to_choice") is not None else "cot"
    config = TaskManager().load(f"{name}@{label}")[0]
    try:
        keys = yaml.safe_load(task_text(str(config.dataset_path), config.dataset_name, MIRRORS))
        split = config.test_split or config.validation_split
        keys |= {"test_split": split, "fewshot_split": None, "_formats_selection": label}
        for ours, theirs in zip(rendered(TaskConfig.from_dict(keys)), rendered(config), strict=True):
            if not asks_the_same(ours[0], theirs[0]):
                return f"{ours[0][:90]!r} asks otherwise than {theirs[0][:90]!r}"
            if ours[1:] != theirs[1:]:
                return f"{ours[1:]}, not {theirs[1:]}"
    except MultiformError as error:
        return str(error)
    return None


def asks_the_same(ours: str, theirs: str) -> bool:
    """Whether the prompts are equal, but for words of the library's own, such as "Which fits the blank?"."""
    words = re.findall(r"\w+", theirs)
    return {*re.findall(r"\w+", ours)} <= {*words} and len(re.findall(r"\w+", ours)) >= len(words) / 2


def rendered(config: TaskConfig) -> list[tuple[str, list[str], list[str]]]:
    """The prompt, the choices, and the texts of the right answers of each document."""
    task = Task.from_config(config.replace(num_fewshot=0), dataset_mirror=mirror_path(MIRRORS))
    documents = []
    for doc_id, doc in task.doc_iterator(limit=DOCS):
        sample = task.sample(doc_id, doc)
        choices = [choice.strip() for choice in sample.choices]
        right = [choices[index] for index in sample.gold] or [str(text) for text in sample.references]
        documents.append((sample.prompt, sorted(choices), sorted({*right})))
    return documents


def test_a_file_becomes_a_task_that_validates_under_all_formats(folder: Folder):
    rows = [
        {"Question text": f"What is {n} plus 1?", "option_a": f"{n}", "option_b": f"{n + 1}", "key": "x", "answer": "B"}
        for n in range(8)
    ]
    folder.rows(*rows, name="sums.jsonl")
    ran = folder.run("new", "sums.jsonl", "--output", "task.yaml")
    assert ran.code == 0, ran.err
    text = (folder.path / "task.yaml").read_text()
    assert "# guess" in text
    assert folder.run("validate", "task.yaml@all").code == 0
    assert "1 plus 1" in folder.run("show", "task.yaml@mcqa", "--doc", "1").out
    again = folder.run("new", "sums.jsonl", "--output", "task.yaml")
    assert (again.code, "the file exists" in again.errors[0]) == (2, True)


def test_several_configurations_are_listed(folder: Folder):
    for name in ("de", "fr"):
        folder.rows({"question": "?", "answer": "a"}, name=f"mirror/org/set/{name}/test.jsonl")
    ran = folder.run("new", "org/set", "--dataset_mirror", "mirror")
    assert ran.code == 2
    assert ran.errors == ["error: org/set: it has several configurations; name one by --dataset_name: de, fr"]
    assert folder.run("new", "org/set", "--dataset_mirror", "mirror", "--dataset_name", "de").code == 0


def test_columns_without_an_answer_are_said_to_be_so(folder: Folder):
    folder.rows({"colour": "red", "shape": "round"}, {"colour": "blue", "shape": "square"})
    ran = folder.run("new", "rows.jsonl")
    assert ran.code == 2
    assert "no column looks like the answer" in ran.errors[0]
    assert "the columns are colour, shape" in ran.errors[0]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"options": "['a', 'b', 'c']", "answer": "c"}, {"doc_to_choice": "{{options|literal}}"}),
        ({"A": "x", "B": "y", "answer": "B"}, {"doc_to_choice": ["{{A}}", "{{B}}"]}),
        (
            {"A": "x", "B": "y", "C": None, "answer": "B"},
            {"doc_to_choice": "{{[A, B, C]|reject('in', [none, ''])|list}}"},
        ),
        ({"options": ["x", "y"], "answer": 2}, {"answer_base": 1}),
        ({"options": ["x", "y"], "gold": [1]}, {"doc_to_choice": "options", "doc_to_target": "gold"}),
        ({"options": ["x", "y"], "answer": "0"}, {"answer_base": 0}),
        ({"answer": {"aliases": ["NYC", "New York"], "value": "NYC"}}, {"doc_to_target": "{{answer.aliases}}"}),
        ({"answers": {"text": ["x"], "answer_start": [1]}}, {"doc_to_target": "{{answers.text}}"}),
        ({"solution": r"So it is \boxed{4}."}, {"doc_to_target": "{{solution|boxed}}"}),
        ({"options": {"A": "x", "B": "y"}, "answer": "B"}, {"doc_to_choice": "{{options.values()|list}}"}),
    ],
)
def test_values_decide_what_a_column_is(row: dict[str, Any], expected: dict[str, Any]):
    keys = guess_mapping([{"question": f"What is it, {n}?", **row} for n in range(3)]).keys
    assert keys["doc_to_text"] == "question"
    assert expected.items() <= keys.items()


@pytest.mark.parametrize(
    "values", [[[{"text": "x"}, {"text": "y"}], 0.5], [{"aliases": ["x"]}, ["x"]], [["x", "y"], {"text": ["x"]}]]
)
@pytest.mark.parametrize("column", ["choices", "answer"])
def test_values_of_several_kinds_in_a_column_are_no_answer_and_no_choices(column: str, values: list[Any]):
    rows = [{"question": f"What is it, {n}?", column: value} for n, value in enumerate(values)]
    assert guess_mapping(rows).keys == {"doc_to_text": "question"}


def test_a_choice_of_zero_stays_where_rows_have_fewer_choices(folder: Folder):
    folder.rows(
        {"question": "2 - 2?", "A": "none of these", "B": 0, "C": None, "answer": "B"},
        {"question": "2 - 1?", "A": "none of these", "B": 2, "C": 1, "answer": "C"},
    )
    assert folder.run("new", "rows.jsonl", "--output", "t.yaml").code == 0
    assert "A. none of these\nB. 0\nAnswer:" in folder.run("show", "t.yaml@mcqa").out


def test_the_one_file_of_a_dataset_is_called_the_test_split(folder: Folder) -> None:
    folder.rows(*({"question": f"{i}?", "choices": ["a", "b"], "answer": i % 2} for i in range(4)), name="train.jsonl")
    written = folder.run("new", "train.jsonl").out
    assert "\ntest_split: test  # guess\n" in written
    assert "fewshot_split" not in written


def test_the_next_command_can_be_pasted(folder: Folder) -> None:
    folder.rows({"question": "Who?", "choices": ["a", "b"], "answer": 0}, name="my rows.jsonl")
    ran = folder.run("new", "my rows.jsonl", "--output", "my task.yaml")
    assert ran.out.endswith("then run multiform validate 'my task.yaml@all'\n")
    assert folder.run("validate", "my task.yaml@all").code == 0
