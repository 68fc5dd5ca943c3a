"""What a report says of each form."""

from __future__ import annotations

from dataclasses import replace

from multiform import Results, evaluate
from multiform.report.entries import form_entry
from multiform.report.overview import overview
from multiform.report.page import payload
from multiform.report.sample import UNREADABLE, WRONG, with_questions
from multiform.results.charts import CHARTS, overview_chart
from multiform.results.values import FormResult
from multiform.statistics.estimates import Estimate


def test_a_score_of_zero_is_wrong_only_where_more_is_better() -> None:
    (form,) = evaluate(model="dummy", tasks="quiz@mcqa", limit=8, progress=False).forms
    wrong = form_entry(form, 0, list(with_questions(form, form.samples)), "mcqa")["flags"].count(WRONG)
    assert wrong == sum(sample.values["acc"] == 0 for sample in form.samples)
    errors = replace(form, higher_is_better={"acc": False})
    assert WRONG not in form_entry(errors, 0, list(with_questions(form, form.samples)), "mcqa")["flags"]


def position_words(form: FormResult, pick: int | None) -> str:
    """What is said of a form's positions, as if the model had picked one of them, or the right one."""
    samples = [replace(sample, prediction=sample.sample.gold[0] if pick is None else pick) for sample in form.samples]
    return str(form_entry(replace(form, samples=samples), 0, (), "mcqa")["position"]["words"])


def test_a_position_is_picked_more_often_only_where_the_test_says_so() -> None:
    (form,) = evaluate(model="dummy", tasks="quiz@mcqa", limit=40, progress=False).forms
    assert position_words(form, None).startswith("no position is shown to be picked more often")
    assert position_words(form, 1).startswith("position B is picked +")


def test_a_completion_that_names_no_answer_is_unreadable() -> None:
    (form,) = evaluate(model="dummy", tasks="quiz@generate", limit=4, progress=False).forms
    unsure = [replace(sample, prediction="I am not sure", values={"exact_match": 0.0}) for sample in form.samples]
    assert all(
        flags & UNREADABLE for flags in form_entry(form, 0, list(with_questions(form, unsure)), "generate")["flags"]
    )


def test_the_page_draws_what_notebooks_and_plot_draw() -> None:
    """The same rows and axes, and not a second calculation."""
    results = evaluate(model="dummy", tasks="quiz@mcqa+cloze", limit=40, progress=False)
    main = payload([results], title="quiz").main
    assert main["overview"]["charts"] == [overview_chart(results).to_dict()]
    assert main["overview"]["flips"] == CHARTS["flips"](results).to_dict()
    [task] = main["tasks"]
    [drawn], [expected] = task["chart"]["panels"], CHARTS["differences"](results).to_dict()["panels"]
    names = ("low", "high", "difference", "p")
    assert [[row[name] for name in names] for row in drawn["rows"]] == [
        [row[name] for name in names] for row in expected["rows"]
    ]
    for name, key in (("position_bias", "position"), ("calibration", "calibration")):
        panels = [form[key]["chart"]["panels"][0] for form in main["forms"]]
        expected_rows = [row for panel in CHARTS[name](results).to_dict()["panels"] for row in panel["rows"]]
        assert [row for panel in panels for row in panel["rows"]] == expected_rows


def test_runs_without_samples_are_told_apart_by_the_interval_alone() -> None:
    form = FormResult(name="words", task="words", alias="words", estimates={})

    def run(score: float, stderr: float | None) -> Results:
        estimates = {"acc,none": Estimate(value=score, n=100, stderr=stderr)}
        return Results(forms=[replace(form, estimates=estimates)], run={"model": "dummy"}, provenance={})

    def sentence(score: float, stderr: float | None) -> str:
        return str(overview([run(0.5, stderr), run(score, stderr)], ["A", "B"])["sentence"])

    assert sentence(0.55, 0.05).startswith("B is not shown to differ from A on words: +0.050 (")
    assert sentence(0.55, None).startswith("B is not shown to differ from A on words: +0.050")
    assert sentence(0.8, 0.05).startswith("B is better than A on words: +0.300 (")
    assert sentence(0.2, 0.05).startswith("B is worse than A on words")
