"""Tables: what is folded, what is split, and that no score is ever cut."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from multiform import Results, evaluate
from multiform.compat.lm_eval.utils import make_table
from multiform.errors import UsageError
from multiform.results.compare import compare_forms
from multiform.results.export import to_json
from multiform.results.pivot import pivot
from multiform.results.table import long_rows, table_text
from multiform.results.values import FormResult, GroupResult
from multiform.statistics.estimates import Estimate
from multiform.terminal import one_line
from tests.run.scripted import ScriptedModel, documents, write_task


@pytest.fixture(scope="module")
def quiz() -> Results:
    return evaluate(model="dummy", tasks="quiz@mcqa+cloze+hybrid", limit=12, progress=False)


@pytest.fixture(scope="module")
def renamed(quiz: Results) -> Callable[[list[tuple[str, str]]], Results]:
    """Results with forms of these tasks and formats; all have the scores of the quiz."""

    def results(names: list[tuple[str, str]]) -> Results:
        forms = [
            replace(quiz.forms[i % 3], name=f"{task}@{label}", alias=f"{task}@{label}", task=task)
            for i, (task, label) in enumerate(names)
        ]
        return replace(quiz, forms=forms, comparisons=compare_forms(forms))

    return results


def scores(text: str) -> list[str]:
    """The scores in a pivot table: numbers with four digits that no interval follows."""
    return re.findall(r"\d\.\d{4}(?! \()", text)


def test_several_forms_are_a_pivot_and_none_is_marked_where_none_stands_out(quiz: Results) -> None:
    text = quiz.table()
    rows = [line.split() for line in text.splitlines() if line.split()[:1] in (["mcqa"], ["cloze"], ["hybrid"])]
    assert rows == [
        [label, "acc", "↑", f"{scores['acc']:.4f}", "±", f"{scores['acc_stderr']:.3f}"]
        for label in ("mcqa", "cloze", "hybrid")
        for scores in [quiz[f"quiz@{label}"]]
    ]
    (row,) = [line for line in text.splitlines() if line.startswith(" quiz ")]
    assert re.search(r"\d\.\d{4} \(\d\.\d{3} to \d\.\d{3}\), p \d\.\d{2}", row)
    words = " ".join(text.split())
    assert re.search(r"of 0\.\d{3} is no finding: equally good forms would be 0\.\d{3} apart on average", words)
    assert "a random choice scores 0.250; not distinguishable from that: all forms" in words


@pytest.fixture
def unequal(tmp_path) -> Results:
    """Two forms that are equally good, and one that is much worse."""
    rates = {"A. ": 0.9, "A) ": 0.9, "(A) ": 0.2}
    model = ScriptedModel(lambda question, first: next(rate for wrap, rate in rates.items() if first.startswith(wrap)))
    write_task(tmp_path, "quiz", documents(80, 1))
    tasks = f"{tmp_path / 'quiz.yaml'}@mcqa+mcqa[wrap=x)]+mcqa[wrap=(x)]"
    return evaluate(model=model, tasks=tasks, progress=False)


def test_all_forms_that_cannot_be_told_from_the_best_are_marked(unequal: Results) -> None:
    table = pivot(unequal)
    (row,) = table.rows
    assert row.best == [True, True, False]
    assert "* cannot be told from the best form (at 5 %, corrected for all pairs of forms)" in table.notes


@pytest.mark.parametrize("number", [1, 4, 32])
@pytest.mark.parametrize("width", [80, 120])
def test_any_number_of_forms_fits_the_width_with_every_score(renamed, number: int, width: int) -> None:
    labels = [f"mcqa[labels=roman,wrap=({i}),sep=space]" if i % 2 else f"form{i}" for i in range(number)]
    task = "a_task_with_a_name_that_is_longer_than_any_column_should_be_in_a_table"
    results = renamed([(task, label) for label in labels])
    text = results.table("pivot", width=width)
    assert max(map(len, text.splitlines())) <= width
    assert len(scores(text)) == number
    assert all(label in text.replace("\n", "") for label in labels)


def test_a_table_is_not_split_where_it_just_fits(renamed) -> None:
    results = renamed([(task, label) for task in ("a", "b", "c") for label in ("mcqa", "cloze", "hybrid")])
    text = results.table("pivot", width=1000)
    width = max(len(line) for line in text.splitlines()[:5])
    assert results.table("pivot", width=width).count("Task") == 1
    assert results.table("pivot", width=width - 1).count("Task") == 2


def test_forms_are_rows_where_they_are_more_than_tasks(renamed) -> None:
    few = renamed([(task, label) for task in ("a", "b", "c") for label in ("mcqa", "cloze")]).table()
    many = renamed([(task, f"form{i}") for task in ("a", "b") for i in range(9)]).table()
    assert [line.split()[0] for line in few.splitlines() if " ± " in line] == ["a", "b", "c"]
    assert [line.split()[0] for line in many.splitlines() if " ± " in line] == [f"form{i}" for i in range(9)]


@pytest.mark.long
def test_a_table_in_a_pipe_is_neither_split_nor_wrapped(renamed) -> None:
    results = renamed([(f"task{i}", f"form{j}") for i in range(40) for j in range(30)])
    text = results.table()
    assert text.count("Task") == 1
    assert "\n    " not in text.partition("best − worst: ")[2]


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_narrow_terminal_cuts_no_number(quiz: Results, width: int) -> None:
    text = quiz.table("long", width=width)
    for form in quiz.forms:
        for estimate in form.estimates.values():
            assert f"{estimate.value:.4f}   {estimate.low:.4f} to {estimate.high:.4f}" in text or width == 80


def test_printing_results_prints_their_table(quiz: Results, capsys: pytest.CaptureFixture[str]) -> None:
    print(quiz)
    assert capsys.readouterr().out.rstrip() == quiz.table().rstrip()


@pytest.mark.long
def test_subjects_are_folded_into_their_group(renamed) -> None:
    subjects = [f"subject_{i}" for i in range(57)]
    results = renamed([(subject, label) for label in ("mcqa", "cloze", "hybrid") for subject in subjects])
    groups = [
        _group(label, [form for form in results.forms if form.name.endswith(label)]) for label in ("mcqa", "cloze")
    ]
    forms = [form for form in results.forms if not form.name.endswith("hybrid")]
    folded = replace(results, forms=forms, groups=groups, comparisons=compare_forms(forms, groups))
    text = folded.table()
    assert "subject_" not in text
    assert "mmlu (57 tasks)" in text
    assert len(scores(text)) == 2
    assert len(text.splitlines()) < 12


def test_a_group_without_a_score_under_one_form_stays_folded(renamed) -> None:
    results = renamed([(subject, label) for label in ("mcqa", "cloze") for subject in ("s1", "s2")])
    groups = [_group(label, [f for f in results.forms if f.name.endswith(label)]) for label in ("mcqa", "cloze")]
    folded = replace(results, groups=[groups[0], replace(groups[1], estimates={})])
    text = folded.table()
    assert "mmlu@cloze: the group has no score; see --table long" in text
    assert len(scores(text)) == 1


def _group(label: str, forms: list[FormResult]) -> GroupResult:
    return GroupResult(
        name=f"mmlu@{label}",
        alias="mmlu",
        depth=0,
        members=[form.name for form in forms],
        version=1,
        num_fewshot=0,
        estimates=forms[0].estimates,
        higher_is_better=forms[0].higher_is_better,
        n=sum(form.n for form in forms),
        path="mmlu",
        forms=[form.name for form in forms],
    )


def test_a_csv_table_has_the_numbers_in_full(quiz: Results) -> None:
    rows = list(csv.DictReader(io.StringIO(quiz.table("csv"))))
    assert [row["name"] for row in rows if row["metric"] == "acc"] == list(quiz)
    for row in rows:
        assert float(row["value"]) == quiz[row["name"]][row["metric"]]


def test_a_latex_table_has_the_best_forms_in_bold(unequal: Results) -> None:
    text = unequal.table("latex")
    assert rf"\textbf{{{unequal['quiz@mcqa']['acc']:.4f}}}" in text
    assert text.count(r"\textbf") == 2
    assert text.count(r" \\") == 3


def test_an_unknown_table_is_refused(quiz: Results) -> None:
    with pytest.raises(UsageError, match="give one of long, pivot, markdown, csv, latex"):
        quiz.table("wide")


def test_one_form_of_each_task_is_a_long_table() -> None:
    results = evaluate(model="dummy", tasks="quiz@mcqa", limit=4, progress=False)
    assert "95 % interval" in results.table()
    assert "Best" not in results.table("pivot")


def test_a_long_table_is_not_cut_in_a_narrow_terminal(quiz: Results) -> None:
    text = table_text(quiz, "long", width=60, color=True)
    assert all(f"quiz@{label}" in text for label in ("mcqa", "cloze", "hybrid"))
    assert "…" not in text


@pytest.mark.parametrize("width", [80, 100])
def test_a_long_table_fits_the_terminal_with_every_number(renamed, width: int) -> None:
    name = "a_task_with_a_name_that_is_longer_than_any_column_should_be_in_a_table"
    results = renamed([(f"{name}{i}", "mcqa") for i in range(3)])
    plain = re.sub(r"\x1b\[[0-9;]*m", "", table_text(results, "long", width=width, color=True))
    assert max(map(len, plain.splitlines())) <= width
    assert "…" not in plain
    for form in results.forms:
        for estimate in form.estimates.values():
            assert f"{estimate.value:.4f}   {estimate.low:.4f} to {estimate.high:.4f}" in plain


@pytest.mark.parametrize("width", [60, 80])
def test_metrics_of_a_column_are_not_cut(quiz: Results, renamed, width: int) -> None:
    """Where the tasks of a column have different metrics with long names."""
    forms = renamed([("one", "mcqa"), ("two", "mcqa"), ("three", "mcqa")]).forms
    metrics = [f"metric_{name}" for name in ("of_exactness", "of_fluency", "of_style")]
    named = [
        replace(form, estimates={f"{metric},none": forms[0].score}, higher_is_better={metric: True})
        for form, metric in zip(forms, metrics, strict=True)
    ]
    text = table_text(replace(quiz, forms=named, comparisons=[]), "pivot", width=width)
    assert "…" not in text
    assert all(f"{metric} ↑" in text for metric in metrics)
    assert max(map(len, text.splitlines())) <= width


def test_tasks_with_and_without_formats_have_one_style_of_table() -> None:
    tasks = ["quiz@mcqa", "quiz"]
    tables = [evaluate(model="dummy", tasks=task, limit=4, progress=False).table() for task in tasks]
    heads = [next(line.split() for line in table.splitlines() if line.strip()) for table in tables]
    assert heads[0] == heads[1] == ["Form", "n", "Shots", "Metric", "Score", "±", "SE", "95", "%", "interval"]


#: Names that other languages take for commands.
HOSTILE = {
    "latex input": r"\input{/etc/passwd}",
    "latex math": r"$\write18{id}$",
    "latex characters": r"^^5cinput #1 {50%} a~b & c \\ d",
    "latex comment": "quiet\n\\input{x}",
    "formula after a space": " =1+1",
    "hyperlink": '=HYPERLINK("http://x.example","quiz")',
    "command": "@SUM(1+1)*cmd|' /C calc'!A0",
    "plus": "+1+cmd",
    "minus": "-2+3",
    "pipe": "a|b",
    "escaped pipe": r"a\|b",
    "markdown link": "[quiz](javascript:alert(1))",
    "markdown image": "![x][y](http://x.example/track.png)",
    "tag": "<img src=http://x.example onerror=alert(1)>",
    "code": "`a|b`",
    "lines": "a\n|b|",
    "escape sequence": "a\x1b[31mb",
}
EACH_NAME = pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE.keys())


@EACH_NAME
def test_names_are_text_in_latex(renamed: Callable[..., Results], name: str) -> None:
    text = renamed([(name, "mcqa"), (name, "f\\$_")]).table("latex")
    commands = r"\\(?:begin|end)\{tabular\}(?:\{[lr]+\})?|\\(?:top|mid|bottom)rule|\\textbf\{[\d.]+\}|\\\\"
    fixed = r"\$n\$|Best \$-\$ worst|\(95\\,\\% interval\)|\$\\(?:up|down)arrow\$"
    escaped = r"\\text(?:backslash|asciicircum|asciitilde|bar|less|greater)\{\}|\\[_%&#{}$]"
    for line in text.splitlines():
        if line.startswith("% "):
            continue
        assert line.replace(r"\&", "").count(" & ") in (0, 4)
        assert not set(re.sub(f"{commands}|{fixed}|{escaped}", "", line).replace(" & ", "")) & set("\\$&#_^~%{}"), line


@EACH_NAME
def test_no_name_is_a_formula_in_csv(renamed: Callable[..., Results], name: str) -> None:
    rows = list(csv.DictReader(io.StringIO(renamed([(name, "mcqa")]).table("csv"))))
    assert rows[0]["task"].removeprefix("'") == name
    texts = [row[column] for row in rows for column in ("name", "kind", "task", "format", "metric", "filter")]
    assert not [text for text in texts if text.strip().startswith(("=", "+", "-", "@"))]


@EACH_NAME
@pytest.mark.parametrize(
    "table",
    [lambda results: results.table("markdown"), lambda results: make_table(to_json(results))],
    ids=["run", "lm-eval"],
)
def test_names_are_text_in_one_column_of_markdown(
    renamed: Callable[..., Results], name: str, table: Callable[[Results], str]
) -> None:
    page = MarkdownIt("commonmark").enable("table").render(table(renamed([(name, "mcqa")])))
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in page.split("<tr>")[2:]]
    assert {len(row) for row in cells} == {9}
    assert html.unescape(cells[0][0]) == one_line(f"{name}@mcqa").strip()
    assert not re.search(r"<(a|img|code)\b", page)


def test_a_number_of_shots_that_is_not_known_is_left_out() -> None:
    form = FormResult(name="words", task="words", alias="words", estimates={"match,none": Estimate(value=0.75, n=4)})
    assert next(long_rows(form))[:3] == ("words", "4", "")
    assert next(long_rows(replace(form, num_fewshot=0)))[:3] == ("words", "4", "0")
