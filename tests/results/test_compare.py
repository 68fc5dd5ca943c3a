"""Forms of one task compared on the same documents: known answers of models that are made for it."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from multiform import Completion, LLOutput, Model, Results, evaluate
from multiform.errors import DataError
from multiform.results.export import to_json

COLOURS = ["red", "blue", "green", "gold"]
TASK = """\
task: {name}
dataset_path: {name}.jsonl
test_split: test
doc_to_text: question
doc_to_choice: colours
doc_to_target: answer
metadata: {{version: 1}}
"""
GROUP = """\
group: paints
task: [walls, cars]
aggregate_metric_list: [{{metric: acc, weight_by_size: {by_size}}}]
"""


class Painter(Model):
    """Picks a colour for each question by a rule, and knows nothing of the format."""

    name = identity = "painter"

    def pick(self, question: int, shown: bool) -> int:
        raise NotImplementedError

    def loglikelihood(self, requests: Sequence[Any]) -> Iterator[Any]:
        for position, request in enumerate(requests):
            choice = request.continuation.strip()
            labelled = choice in "ABCD"
            index = "ABCD".index(choice) if labelled else COLOURS.index(choice)
            question = int(request.context.rpartition("thing ")[2].partition(" ")[0])
            wanted = self.pick(question, labelled)
            yield position, LLOutput(-1.0 if index == wanted else -3.0 - index / 10, is_greedy=False)

    def loglikelihood_rolling(self, requests: Sequence[Any]) -> Iterator[Any]:
        raise NotImplementedError

    def generate(self, requests: Sequence[Any]) -> Iterator[Any]:
        for position, _ in enumerate(requests):
            yield position, Completion(" A")


class Blind(Painter):
    """Right on two thirds of the questions, whatever their wording."""

    def pick(self, question: int, shown: bool) -> int:
        return gold(question) if question % 3 else (gold(question) + 1) % 4


class FirstLover(Painter):
    """Takes the first choice wherever choices are labelled, and is right elsewhere."""

    def pick(self, question: int, shown: bool) -> int:
        return 0 if shown else gold(question)


class Shown(Painter):
    """Is right or wrong on a question by the colours of the few-shot examples alone."""

    def loglikelihood(self, requests: Sequence[Any]) -> Iterator[Any]:
        for position, request in enumerate(requests):
            choice = request.continuation.strip()
            index = "ABCD".index(choice) if choice in "ABCD" else COLOURS.index(choice)
            first, *_, question = (int(part.partition(" ")[0]) for part in request.context.split("thing ")[1:])
            wanted = (gold(question) + first % 2) % 4
            yield position, LLOutput(-1.0 if index == wanted else -3.0, is_greedy=False)


def gold(question: int) -> int:
    return random.Random(question).randrange(4)


def write(folder: Path, name: str, n: int) -> None:
    rows = [
        {"question": f"What is the colour of thing {i} ?", "colours": COLOURS, "answer": gold(i), "room": f"r{i // 4}"}
        for i in range(n)
    ]
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / f"{name}.yaml").write_text(TASK.format(name=name))


def run(folder: Path, model: Model, tasks: str = "walls@mcqa+cloze", **settings: Any) -> Results:
    return evaluate(model=model, tasks=tasks, include_path=folder, progress=False, **settings)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, "walls", 80)
    write(tmp_path, "cars", 40)
    return tmp_path


def test_a_model_that_is_blind_to_wording_has_no_spread(folder: Path) -> None:
    (comparison,) = run(folder, Blind()).comparisons
    assert comparison.forms == ("walls@mcqa", "walls@cloze")
    assert [mean.value for mean in comparison.means] == [pytest.approx(53 / 80)] * 2
    assert comparison.spread is not None
    assert comparison.spread.spread.covers(0)
    (pair,) = comparison.differences
    assert (pair.estimate.value, pair.p, pair.p_holm) == (0, 1, 1)
    assert comparison.rightness is not None
    assert comparison.rightness.flip_rate.value == 0
    assert comparison.agreement is not None
    assert comparison.agreement.value == 1
    assert comparison.variance is not None
    assert comparison.variance.shares["document"] == pytest.approx(1)


def test_what_few_shot_examples_change_is_not_taken_for_the_format(folder: Path) -> None:
    (comparison,) = run(folder, Shown(), num_fewshot=1, fewshot_draws=4).comparisons
    assert len(comparison.forms) == 8
    assert comparison.variance is not None
    shares = comparison.variance.shares
    assert shares["format"] == pytest.approx(0)
    assert shares["shots"] > 0.8
    saved = comparison.to_dict()["variance"]
    assert (saved["shares"], "forms" in saved) == (shares, False)


def test_a_model_that_prefers_the_first_position_is_found_out(folder: Path) -> None:
    (comparison,) = run(folder, FirstLover()).comparisons
    labelled, spelled = comparison.positions
    assert labelled is not None
    assert labelled.preferred == 0
    assert labelled.positions[0].picked.value == 1
    assert labelled.positions[0].excess.interval[0] > 0.5
    assert labelled.p < 1e-6
    assert spelled is not None
    assert spelled.p == 1
    assert (comparison.best, comparison.worst) == (1, 0)
    assert comparison.spread is not None
    assert comparison.spread.p < 0.001
    assert comparison.differences[0].p < 1e-6


@pytest.mark.parametrize(("by_size", "weights"), [(True, (2 / 3, 1 / 3)), (False, (1 / 2, 1 / 2))])
def test_a_group_is_compared_over_its_subjects_as_it_weighs_them(
    folder: Path, by_size: bool, weights: tuple[float, float]
) -> None:
    (folder / "paints.yaml").write_text(GROUP.format(by_size=str(by_size).lower()))
    results = run(folder, FirstLover(), "paints@mcqa+cloze")
    group, *tasks = results.comparisons
    assert (group.name, group.forms, group.n) == ("paints", ("paints@mcqa", "paints@cloze"), 120)
    assert [task.name for task in tasks] == ["walls", "cars"]
    for form, mean in zip(group.forms, group.means, strict=True):
        assert mean.value == pytest.approx(results[form]["acc"])
    assert group.agreement is not None
    agreements = [task.agreement.value for task in tasks if task.agreement is not None]
    assert group.agreement.value == pytest.approx(sum(a * w for a, w in zip(agreements, weights, strict=True)))
    # What is counted over documents needs documents of equal weight.
    assert [bias is not None and bias.p < 0.001 for bias in group.positions] == [by_size, False]
    assert all((value is not None) == by_size for value in (*group.calibrations, group.kappa))


def test_a_group_is_compared_by_the_metric_that_it_has_a_score_of(folder: Path) -> None:
    (folder / "paints.yaml").write_text(GROUP.format(by_size="true").replace("metric: acc,", "metric: acc_norm,"))
    results = evaluate(model="dummy", tasks="paints@mcqa+cloze", include_path=folder, progress=False)
    group = results.comparisons[0]
    assert (group.name, group.metric) == ("paints", "acc_norm")
    assert [mean.value for mean in group.means] == pytest.approx([results[form]["acc_norm"] for form in group.forms])


def test_documents_of_one_cluster_count_as_dependent(folder: Path) -> None:
    (comparison,) = run(folder, Blind(), metadata={"cluster": "room"}).comparisons
    assert (comparison.n, comparison.clusters) == (80, 20)
    (alone,) = run(folder, Blind(), "walls@mcqa", metadata={"cluster": "room"}).comparisons
    assert alone.means[0].interval == pytest.approx(comparison.means[0].interval)
    assert (alone.spread, alone.differences) == (None, ())
    with pytest.raises(DataError, match="doc 0 has no column 'rom'; did you mean 'room'"):
        run(folder, Blind(), metadata={"cluster": "rom"})


def test_the_spread_of_two_forms_has_the_p_value_of_their_difference(folder: Path) -> None:
    """A table and the differences below it must not call the same difference a finding and noise."""
    for seed in range(4):
        results = evaluate(
            model="dummy", model_args={"seed": seed}, tasks="quiz@mcqa+cloze", limit=12, progress=False, use_cache=False
        )
        [comparison] = results.comparisons
        assert comparison.spread is not None
        assert comparison.spread.p == comparison.differences[0].p


def test_metrics_of_different_kinds_are_not_compared(folder: Path) -> None:
    results = evaluate(model="dummy", tasks="walls@mcqa+generate+bpb", include_path=folder, progress=False)
    (comparison,) = results.comparisons
    assert comparison.forms == ("walls@mcqa", "walls@generate")
    assert comparison.metric == "accuracy"


def test_one_form_and_one_document_have_no_comparison(folder: Path) -> None:
    assert run(folder, Blind(), "walls@mcqa").comparisons == []
    assert run(folder, Blind(), limit=1).comparisons == []


def test_the_results_file_has_the_comparison(folder: Path) -> None:
    results = run(folder, FirstLover())
    found = to_json(results)["across_forms"]["walls"]["acc"]
    assert found["n"] == 80
    assert set(found["forms"]) == {"walls@mcqa", "walls@cloze"}
    assert found["best"]["form"] == "walls@cloze"
    assert found["pairs"][0]["p_holm"] < 0.001
    assert found["position_bias"]["walls@mcqa"]["preferred"] == 0
    assert set(found["calibration_error"]) == {"walls@mcqa", "walls@cloze"}
    assert sum(found["right"][share]["value"] for share in ("under_all", "under_some", "under_none")) == (
        pytest.approx(1)
    )
    assert "across_forms" not in to_json(run(folder, Blind(), "walls@mcqa"))


def test_the_smallest_detectable_difference_is_said_before_the_run(folder: Path, capsys: Any) -> None:
    evaluate(model="dummy", tasks="walls@mcqa+cloze", include_path=folder, progress=True)
    told = capsys.readouterr().err
    assert "can detect: 0.142 (n=80), with 80% power if they differ on 20% of the documents" in told
    assert told.index("can detect") < told.index("running ")
    plan = evaluate(model="dummy", tasks="walls@mcqa+cloze", include_path=folder, plan_only=True).run["plan"]
    assert "can detect: 0.142 (n=80)" in plan
    few = evaluate(model="dummy", tasks="walls@mcqa+cloze", include_path=folder, limit=3, plan_only=True).run["plan"]
    assert "no difference between two forms can be detected with 80% power (n=3)" in few
