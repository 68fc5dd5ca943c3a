"""Budgeted runs: the best form within a number of evaluations, and intervals that are narrow enough."""

from __future__ import annotations

import json
import re

import pytest

from multiform import IncompleteRunError, UsageError, evaluate, register_model
from multiform.cli.main import main
from multiform.models.dummy import DummyModel
from multiform.requests import FailedRequest
from multiform.results.notes import result_notes
from tests.run.scripted import ScriptedModel

#: How often the model is right, by the label wrapper of the prompt.
RATES = {"A. ": 0.55, "(A) ": 0.9, "A) ": 0.5, "[A] ": 0.1, "A: ": 0.6}
FORMS = "mcqa+mcqa[wrap=(x)]+mcqa[wrap=x)]+mcqa[wrap=[x]]+mcqa[wrap=x:]"


def wrapper_rate(question, first_choice):
    return next(rate for wrapper, rate in RATES.items() if first_choice.startswith(wrapper))


def scripted():
    """Is right about as many documents as the wrapper of the labels says."""
    return ScriptedModel(wrapper_rate)


@pytest.fixture
def many(tmp_path):
    """A task with 400 documents, whose right answer is always the first."""
    docs = [{"q": f"Question {number}?", "c": ["yes", "no"], "a": 0} for number in range(400)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs), encoding="utf-8")
    fields = "doc_to_text: q\ndoc_to_choice: c\ndoc_to_target: a\nformats: mcqa\n"
    file = tmp_path / "many.yaml"
    file.write_text(f"task: many\ndataset_path: rows.jsonl\ntest_split: train\n{fields}", encoding="utf-8")
    return file


def test_a_budget_finds_the_best_and_the_worst_form_with_a_part_of_the_evaluations(many):
    model = scripted()
    results = evaluate(model=model, tasks=f"{many}@{FORMS}", budget=1000)
    [stops] = results.run["budget"]
    assert stops["best"] == ("many@mcqa[wrap=(x)]",)
    assert stops["worst"] == ("many@mcqa[wrap=[x]]",)
    assert "With probability 0.95 or more" in stops["guarantee"]
    evaluated = {form.name: form.n for form in results.forms}
    assert sum(evaluated.values()) * 2 == model.asked < 2000
    assert {name: form["evaluated"] for name, form in stops["forms"].items()} == evaluated
    assert stops["forms"]["many@mcqa"]["why"] == "it is neither the best nor the worst form"
    assert stops["forms"]["many@mcqa[wrap=(x)]"]["why"] == "the best and the worst form are known"


def test_a_run_that_asks_about_the_dataset_stops_sooner(many, capsys):
    of_questions = evaluate(model=scripted(), tasks=f"{many}@mcqa", until_ci=0.06).forms[0]
    results = evaluate(model=scripted(), tasks=f"{many}@mcqa", until_ci=0.06, ci_of="dataset")
    assert results.forms[0].n < of_questions.n
    [stops] = results.run["budget"]
    assert "the interval of the whole dataset's score is narrow enough" in stops["forms"]["many@mcqa"]["why"]
    assert results.run["arguments"]["ci_of"] == "dataset"
    assert main(["run", "--tasks", str(many), "--model", "dummy", "--ci_of", "dataset"]) == 2
    assert "there is no until_ci; add e.g. --until_ci 0.03" in capsys.readouterr().err


def test_a_budget_that_is_spent_claims_nothing_that_is_not_known(many):
    model = scripted()
    results = evaluate(model=model, tasks=f"{many}@mcqa+mcqa[wrap=x)]+mcqa[wrap=x:]", budget=100)
    [stops] = results.run["budget"]
    assert model.asked <= 200
    assert len(stops["best"]) > 1
    assert {form["why"] for form in stops["forms"].values()} == {"the budget is spent"}


def test_documents_come_in_random_order_the_same_for_all_forms_and_with_a_seed(many):
    def evaluated(seed):
        results = evaluate(
            model=scripted(), tasks=f"{many}@mcqa+mcqa[wrap=x)]", budget=80, seeds=(seed, 1234, 1234, 1234)
        )
        return [[sample.doc_id for sample in form.samples] for form in results.forms]

    first, second = evaluated(0)
    assert first == second == evaluated(0)[0] != evaluated(1)[0]
    assert first == sorted(first)
    assert max(first) > 200


def test_a_form_stops_when_its_interval_is_narrow_enough(many):
    results = evaluate(model=scripted(), tasks=f"{many}@mcqa+mcqa[wrap=[x]]", until_ci=0.1)
    [stops] = results.run["budget"]
    middle, extreme = stops["forms"].values()
    assert extreme["evaluated"] < middle["evaluated"] < 400
    for form in results.forms:
        low, high = form.estimates[form.primary].interval
        assert high - low <= 0.2 + 1e-9
        assert low <= form.estimates[form.primary].value <= high
    assert "narrow enough" in middle["why"]
    shared = f"many: best minus worst is over the {extreme['evaluated']} documents that all forms have"
    assert shared in " ".join(results.table().split())


def test_a_note_says_what_the_whole_dataset_would_score(many):
    results = evaluate(model=scripted(), tasks=f"{many}@mcqa", until_ci=0.1)
    whole = evaluate(model=scripted(), tasks=f"{many}@mcqa")
    [note] = [note for note in result_notes(results) if "all 400 documents would score" in note]
    low, high = (float(number) for number in re.findall(r"0\.\d{4}", note))
    estimate = results.forms[0].estimates["acc,none"]
    assert low <= whole["many@mcqa"]["acc,none"] <= high
    assert estimate.interval[0] < low < estimate.value < high < estimate.interval[1]
    assert not any("would score" in note for note in result_notes(whole))


def test_an_interval_that_stays_wide_takes_all_documents_and_says_so(many):
    results = evaluate(model=scripted(), tasks=f"{many}@mcqa", until_ci=0.01)
    [stops] = results.run["budget"]
    assert stops["forms"]["many@mcqa"]["evaluated"] == 400
    assert stops["forms"]["many@mcqa"]["why"].startswith("no more documents")


class Failing(ScriptedModel):
    """Fails for good on every tenth question."""

    def loglikelihood(self, requests):
        for position, output in super().loglikelihood(requests):
            broken = "0?" in requests[position].context
            yield position, FailedRequest(reason="no answer") if broken else output


def test_documents_that_fail_are_left_out_of_the_rounds_or_count_as_wrong(many):
    tasks = f"{many}@mcqa+mcqa[wrap=(x)]"
    skipped = evaluate(model=Failing(wrapper_rate), tasks=tasks, budget=800, on_error="skip")
    counted = evaluate(model=Failing(wrapper_rate), tasks=tasks, budget=800, on_error="count")
    for results in (skipped, counted):
        assert results.run["budget"][0]["best"] == ("many@mcqa[wrap=(x)]",)
    left, wrong = (results["many@mcqa[wrap=(x)]"]["acc,none"] for results in (skipped, counted))
    assert wrong < left
    low, high = counted.forms[1].estimates["acc,none"].interval
    assert low <= wrong <= high


def test_a_round_that_fails_ends_the_run_and_what_was_scored_is_there(many):
    with pytest.raises(IncompleteRunError) as caught:
        evaluate(model=Failing(wrapper_rate), tasks=f"{many}@mcqa+mcqa[wrap=(x)]", budget=800)
    partial = caught.value.results
    assert partial is not None
    assert 0 < sum(form.n for form in partial.forms) < 40


def test_the_limit_of_failures_is_that_of_the_whole_run(many):
    with pytest.raises(IncompleteRunError, match="more than max_failures allows"):
        evaluate(model=Failing(wrapper_rate), tasks=f"{many}@mcqa", until_ci=0.01, on_error="skip", max_failures=5)


def test_the_command_line_says_what_was_stopped_and_why(capsys):
    assert main(["run", "quiz@mcqa+hybrid", "--model", "dummy", "--budget", "30"]) == 0
    printed = capsys.readouterr().out
    assert "evaluations, by acc, documents in random order" in printed
    assert "best: not known yet, one of 2 forms" in printed
    assert "quiz@hybrid: 15 documents, the budget is spent; it may be the best or the worst" in printed
    assert "With probability 0.95 or more" in printed


def test_the_results_file_has_what_was_stopped(capsys):
    assert main(["run", "quiz@mcqa+hybrid", "--model", "dummy", "--budget", "30", "--json"]) == 0
    budget = json.loads(capsys.readouterr().out)["config"]["budget"]
    assert budget[0]["forms"]["quiz@mcqa"]["evaluated"] == 15


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tasks": "quiz@mcqa+bpb", "budget": 100}, "lower is better in the first metric of 'quiz@bpb'"),
        ({"tasks": "quiz@mcqa+cloze+hybrid", "budget": 2}, "not enough for one document under each of 3 forms"),
        ({"tasks": "quiz@mcqa", "budget": 100, "until_ci": 0.1}, "give one of budget and until_ci"),
        ({"tasks": "quiz@mcqa", "until_ci": 0.7}, "expected a number between 0 and 0.5, got 0.7"),
        ({"tasks": "quiz@mcqa", "until_ci": 0.1, "predict_only": True}, "without scores nothing says where to stop"),
    ],
)
def test_what_cannot_be_stopped_is_refused(options, message):
    with pytest.raises(UsageError) as caught:
        evaluate(model="dummy", **options)
    assert message in str(caught.value)


def test_a_metric_of_which_less_is_better_is_refused_before_the_model_is_loaded() -> None:
    class Unloadable(DummyModel):
        """Is never to be loaded."""

        def __init__(self) -> None:
            raise AssertionError("loaded")

    register_model("unloadable")(Unloadable)
    with pytest.raises(UsageError, match="lower is better in the first metric of 'quiz@bpb'"):
        evaluate(model="unloadable", tasks="quiz@all", budget=400, progress=False)
