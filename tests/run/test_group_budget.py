"""Budgets on groups: the forms of a group compete on the documents of all its tasks, weighted as the group says."""

from __future__ import annotations

import json

import pytest

from multiform import evaluate
from multiform.results.export import to_json
from multiform.run.progress import RunStatus
from multiform.statistics.estimates import STOPPED_LEVEL, wilson_interval
from tests.run.scripted import ScriptedModel

#: How often the model is right, by subject and by the label wrapper of the prompt.
RATES = {"small": {"A. ": 0.95, "(A) ": 0.4, "A) ": 0.05}, "large": {"A. ": 0.5, "(A) ": 0.8, "A) ": 0.05}}
FORMS = "mcqa+mcqa[wrap=(x)]+mcqa[wrap=x)]"
SIZES = {"small": 150, "large": 850}


def scripted():
    """Is right about as many documents as the subject and the wrapper of the labels say."""

    def rate(question, first_choice):
        subject = next(subject for subject in RATES if subject in question)
        return next(rate for wrapper, rate in RATES[subject].items() if first_choice.startswith(wrapper))

    return ScriptedModel(rate)


@pytest.fixture
def exam(tmp_path):
    """Writes a group of two tasks, whose right answer is always the first, and gives its folder."""

    def write(weight_by_size):
        fields = "test_split: train\ndoc_to_text: q\ndoc_to_choice: c\ndoc_to_target: a\nformats: mcqa\n"
        for name, size in SIZES.items():
            docs = [{"q": f"Question {number} of {name}?", "c": ["yes", "no"], "a": 0} for number in range(size)]
            (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs))
            (tmp_path / f"{name}.yaml").write_text(f"task: {name}\ndataset_path: {name}.jsonl\n{fields}")
        aggregate = f"{{metric: acc, weight_by_size: {str(weight_by_size).lower()}}}"
        (tmp_path / "exam.yaml").write_text(f"group: exam\ntask: [small, large]\naggregate_metric_list: {aggregate}\n")
        return tmp_path

    return write


@pytest.mark.long
@pytest.mark.parametrize(("by_size", "best"), [(True, "exam@mcqa[wrap=(x)]"), (False, "exam@mcqa")])
def test_the_best_form_is_that_of_the_whole_group(exam, by_size, best):
    folder = exam(by_size)
    results = evaluate(model=scripted(), tasks=f"exam@{FORMS}", include_path=folder, budget=1500, progress=False)
    [stops] = results.run["budget"]
    assert (stops["task"], stops["metric"]) == ("exam", "acc")
    assert (stops["best"], stops["worst"]) == ((best,), ("exam@mcqa[wrap=x)]",))
    evaluated = {group.name: group.n for group in results.groups}
    assert {name: form["evaluated"] for name, form in stops["forms"].items()} == evaluated
    assert sum(evaluated.values()) < 1500
    small, large = (sum(form.n for form in results.forms if form.task == task) for task in SIZES)
    assert small / (small + large) == pytest.approx(0.15 if by_size else 0.5, abs=0.08)


def test_the_intervals_of_a_group_and_of_its_tasks_hold_wherever_it_stopped(exam):
    folder = exam(weight_by_size=True)
    results = evaluate(model=scripted(), tasks="exam@mcqa", include_path=folder, until_ci=0.1, progress=False)
    [stops] = results.run["budget"]
    (stop,) = stops["forms"].values()
    (group,) = results.groups
    low, high = group.estimates["acc,none"].interval
    assert high - low <= 0.2 + 1e-9
    assert stop["evaluated"] == group.n < 600
    for form in results.forms:
        member = stops["members"][form.name]
        assert (member["evaluated"], member["documents"]) == (form.n, SIZES[form.task])
        rate = form.estimates["acc,none"]
        assert rate.interval == pytest.approx(wilson_interval(rate.value, rate.n, STOPPED_LEVEL))
    assert json.loads(json.dumps(to_json(results)["config"]["budget"]))[0]["members"]


def test_subjects_that_weigh_the_same_end_with_the_smallest_of_them(exam):
    folder = exam(weight_by_size=False)
    results = evaluate(model=scripted(), tasks="exam@mcqa", include_path=folder, until_ci=0.01, progress=False)
    [stop] = results.run["budget"][0]["forms"].values()
    assert "no more documents of a task, and all tasks of the group weigh the same" in stop["why"]
    assert max(form.n for form in results.forms if form.task == "small") == SIZES["small"]


def test_a_group_with_few_documents_of_a_subject_is_compared_all_the_same(exam):
    folder = exam(weight_by_size=True)
    results = evaluate(model=scripted(), tasks=f"exam@{FORMS}", include_path=folder, budget=24, progress=False)
    assert results.comparisons[0].name == "exam"
    assert results.comparisons[0].n == 8


def test_tasks_of_a_group_without_a_score_stop_alone(exam):
    folder = exam(weight_by_size=True)
    (folder / "exam.yaml").write_text("group: exam\ntask: [small, large]\n")
    results = evaluate(model=scripted(), tasks=f"exam@{FORMS}", include_path=folder, budget=400, progress=False)
    assert [stops["task"] for stops in results.run["budget"]] == ["small", "large"]


class Watching:
    """Progress that remembers what it could have shown."""

    def __init__(self):
        self.status = RunStatus("evaluations")
        self.seen, self.messages = [], []

    def message(self, text):
        self.messages.append(text)

    def begin(self, requests, docs):
        raise AssertionError("rounds are no runs of their own")

    def watch(self, status):
        self.status = status

    def on_response(self): ...

    def on_score(self, form, metric, running, n):
        self.seen.append((self.status.completed, self.status.share, self.status.scores))

    def end(self):
        self.messages.append("end")


def test_progress_goes_on_within_rounds_and_across_them(exam):
    folder, progress = exam(weight_by_size=True), Watching()
    evaluate(model=scripted(), tasks=f"exam@{FORMS}", include_path=folder, budget=60, progress=progress)
    assert [answered for answered, _, _ in progress.seen] == list(range(1, 61))
    shares = [share for _, share, _ in progress.seen]
    assert shares[0] == pytest.approx(1 / 60)
    assert shares[-1] == 1
    assert {score.form for score in progress.status.scores} == {f"exam@{form}" for form in FORMS.split("+")}
    assert "evaluating in rounds, at most 60 evaluations of a document under a form" in progress.messages
    assert progress.messages.count("end") == 1
