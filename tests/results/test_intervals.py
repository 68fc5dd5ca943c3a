"""One source of intervals: the table, the file, a comparison and a rescored run show the same ones, and they cover."""

from __future__ import annotations

import numpy as np
import pytest

from multiform import evaluate
from multiform.results.export import to_json
from multiform.results.read import read_results
from multiform.run.rescoring import rescore
from multiform.scoring.aggregations import group_scores
from multiform.statistics.estimates import mean_estimate
from tests.run.scripted import ScriptedModel, documents, write_task


class ClusterModel(ScriptedModel):
    """Is right about whole passages."""

    def __init__(self):
        right = np.random.default_rng(0).random(1000) < 0.6
        super().__init__(lambda question, first: float(right[int(question.split()[-1].split("-")[0])]))


@pytest.fixture
def passages(tmp_path):
    write_task(tmp_path, "passages", documents(20, 6), "metadata: {cluster: passage}\n")
    return tmp_path


def test_clusters_count_in_every_place_that_shows_an_interval(passages, capsys):
    results = evaluate(model=ClusterModel(), tasks="passages@mcqa+hybrid", include_path=passages, progress=False)
    (comparison,) = results.comparisons
    form = results.forms[0]
    low, high = form.estimates["acc,none"].interval
    assert comparison.means[0].interval == pytest.approx((low, high))
    assert to_json(results)["intervals"][form.name]["acc,none"] == pytest.approx([low, high])
    assert results[form.name]["acc_interval"] == results[form.name]["acc_interval,none"] == (low, high)
    assert f"{low:.4f} to {high:.4f}" in results.table("long", width=200)
    assert high - low > 0.3  # 20 passages; as 120 independent documents it would be 0.17
    error = form.estimates["acc,none"].stderr
    assert error == pytest.approx(np.std([s.values["acc"] for s in form.samples], ddof=1) / np.sqrt(120))


def test_a_group_in_which_all_is_right_has_an_interval_within_0_and_1(tmp_path):
    for name in ("one", "two", "three"):
        write_task(tmp_path, name, documents(12, 1))
    tasks = "[one, two, three]"
    (tmp_path / "all.yaml").write_text(
        f"group: all\ntask: {tasks}\naggregate_metric_list: [{{metric: acc, weight_by_size: true}}]\n", encoding="utf-8"
    )
    results = evaluate(model=ScriptedModel(lambda *_: 1.0), tasks="all", include_path=tmp_path, progress=False)
    (group,) = results.groups
    low, high = group.estimates["acc,none"].interval
    assert (group.estimates["acc,none"].value, high) == (1.0, 1.0)
    assert 0.7 < low < 0.95


def test_a_harmonic_mean_of_tasks_is_as_uncertain_as_its_worst_task(tmp_path):
    for name in ("one", "two"):
        write_task(tmp_path, name, documents(12, 1))
    (tmp_path / "all.yaml").write_text(
        "group: all\ntask: [one, two]\naggregate_metric_list: [{metric: acc, aggregation: adjusted_harmonic_mean}]\n",
        encoding="utf-8",
    )
    results = evaluate(model=ScriptedModel(lambda *_: -1.0), tasks="all", include_path=tmp_path, progress=False)
    estimate = results.groups[0].estimates["acc,none"]
    assert estimate.value == pytest.approx(0.01)
    low, high = estimate.interval
    assert low == pytest.approx(0.01)
    assert 0.1 < high < 0.3
    assert to_json(results)["intervals"]["all"]["acc,none"] == pytest.approx([low, high])


@pytest.mark.long
def test_the_interval_of_a_harmonic_mean_covers_that_of_the_true_accuracies():
    random, right = np.random.default_rng(0), [*[0.01] * 4, *np.linspace(0.05, 0.5, 19)]
    true = len(right) / sum(1 / (p + 0.01) for p in right)
    entry, covered = [{"metric": "acc", "aggregation": "adjusted_harmonic_mean"}], 0
    for _ in range(200):
        tasks = [{"acc,none": mean_estimate([1.0] * k + [0.0] * (200 - k))} for k in random.binomial(200, right)]
        covered += group_scores(entry, tasks)["acc,none"].covers(true)
    assert covered >= 180


def test_a_metric_that_only_some_tasks_of_a_group_have_stays_within_its_range(tmp_path):
    write_task(tmp_path, "one", documents(12, 1))
    write_task(tmp_path, "two", documents(12, 1))
    metrics = "aggregate_metric_list: [{metric: all, weight_by_size: false}]\n"
    (tmp_path / "all.yaml").write_text(f"group: all\ntask: [one@mcqa, two@generate]\n{metrics}", encoding="utf-8")
    results = evaluate(model=ScriptedModel(lambda *_: 1.0), tasks="all", include_path=tmp_path, progress=False)
    (group,) = results.groups
    generated = next(form for form in results.forms if form.name == "two@generate")
    for key in ("exact_match,none", "invalid,none"):
        key = next(known for known in group.estimates if known.startswith(key.partition(",")[0]))
        assert group.estimates[key].interval == pytest.approx(generated.estimates[key].interval)
    assert all(0 <= bound <= 1 for estimate in group.estimates.values() for bound in estimate.interval)


def test_a_rescored_run_that_was_stopped_has_the_same_intervals(tmp_path):
    write_task(tmp_path, "many", documents(400, 1))
    for option in ({"until_ci": 0.06}, {"budget": 300}):
        out = tmp_path / next(iter(option))
        results = evaluate(
            model=ScriptedModel(lambda *_: 0.7), tasks="many@mcqa+hybrid", include_path=tmp_path,
            output_path=out, log_samples=True, progress=False, **option,
        )  # fmt: skip
        again, read = rescore(out, include_path=tmp_path), read_results(out)
        for form in results.forms:
            assert form.n < 400
            known = form.estimates["acc,none"].interval
            assert again.forms[results.forms.index(form)].estimates["acc,none"].interval == pytest.approx(known)
            assert next(f for f in read.forms if f.name == form.name).estimates["acc,none"].interval == pytest.approx(
                known
            )


def test_whole_clusters_are_evaluated_until_the_interval_is_narrow(passages):
    write_task(passages, "passages", documents(150, 6), "metadata: {cluster: passage}\n")
    results = evaluate(
        model=ClusterModel(), tasks="passages@mcqa", include_path=passages, until_ci=0.12, progress=False
    )
    (form,) = results.forms
    low, high = form.estimates["acc,none"].interval
    counts = {sample.doc["passage"]: 0 for sample in form.samples}
    for sample in form.samples:
        counts[sample.doc["passage"]] += 1
    assert set(counts.values()) == {6}
    assert len(counts) < 150
    assert (high - low) / 2 <= 0.12
    assert form.n > 250  # independent documents would need 64
