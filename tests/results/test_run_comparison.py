"""Two runs, compared document by document."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from multiform import Results, evaluate, read_results
from multiform.cli.main import main
from multiform.errors import DataError, UsageError
from multiform.results.gate import gate
from multiform.results.run_comparison import FormChange, compare_runs, compare_wordings
from multiform.statistics.differences import paired_difference
from multiform.statistics.means import document_scores


def run(seed: int, tasks: str = "quiz@mcqa+cloze", limit: int | None = 60) -> Results:
    return evaluate(model="dummy", model_args={"seed": seed}, tasks=tasks, limit=limit, progress=False)


@pytest.fixture(scope="module")
def base() -> Results:
    return run(0)


@pytest.fixture(scope="module")
def tuned() -> Results:
    return run(1)


def test_the_difference_is_that_of_the_scores(base: Results, tuned: Results) -> None:
    mcqa, cloze = compare_runs(base, tuned)
    assert (mcqa.name, cloze.name, mcqa.metric) == ("quiz@mcqa", "quiz@cloze", "acc")
    assert mcqa.difference.value == pytest.approx(tuned["quiz@mcqa"]["acc"] - base["quiz@mcqa"]["acc"])
    assert (len(mcqa.raised) - len(mcqa.lowered)) / 60 == pytest.approx(mcqa.difference.value)
    assert mcqa.p is not None
    assert mcqa.p <= (mcqa.p_holm or 0)


def test_a_run_equals_itself(base: Results) -> None:
    for entry in compare_runs(base, base):
        assert (entry.difference.value, entry.p, entry.raised, entry.lowered) == (0, 1, (), ())


def test_equal_models_are_told_apart_in_one_of_twenty_runs_at_most() -> None:
    """Two models that are right by chance: the test of their difference keeps its level."""
    generator = np.random.default_rng(0)
    draws = [generator.integers(0, 2, size=(100, 2)) for _ in range(400)]
    assert np.mean([paired_difference(document_scores(scores)).p < 0.05 for scores in draws]) <= 0.05


def test_two_formats_of_a_task_can_be_compared() -> None:
    (entry,) = compare_runs(run(0, "quiz@mcqa"), run(0, "quiz@cloze"))
    assert entry.name == "quiz@mcqa → quiz@cloze"
    assert entry.paired


def test_without_samples_the_scores_alone_are_compared(base: Results, tuned: Results, tmp_path: Path) -> None:
    base.save(tmp_path / "base", samples=False)
    (mcqa, _) = compare_runs(read_results(tmp_path / "base"), tuned)
    assert (mcqa.paired, mcqa.p) == (False, None)
    paired = compare_runs(base, tuned)[0]
    assert mcqa.difference.value == pytest.approx(paired.difference.value)


def test_runs_of_other_tasks_are_refused(base: Results) -> None:
    with pytest.raises(UsageError, match="the runs have no form in common: the first has quiz@mcqa, quiz@cloze"):
        compare_runs(base, run(0, "quiz@bpb"))


def test_other_documents_are_refused(base: Results, tmp_path: Path) -> None:
    base.save(tmp_path)
    for file in tmp_path.rglob("samples_*mcqa*"):
        file.write_text(file.read_text().replace("Which planet is", "Which star is"))
    with pytest.raises(DataError, match="document 1 of quiz@mcqa is not the same in both runs"):
        compare_runs(base, read_results(tmp_path))


def test_a_metric_that_is_missing_is_named(base: Results, tuned: Results) -> None:
    assert compare_runs(base, tuned, metric="acc_norm")[0].metric == "acc_norm"
    with pytest.raises(UsageError, match="quiz@mcqa has no score 'f1'; there are: acc, acc_norm"):
        compare_runs(base, tuned, metric="f1")


def test_the_command_fails_where_a_form_got_worse(
    base: Results, tuned: Results, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base.save(tmp_path / "base")
    tuned.save(tmp_path / "tuned")
    change = tuned["quiz@mcqa"]["acc"] - base["quiz@mcqa"]["acc"]
    runs = [str(tmp_path / "base"), str(tmp_path / "tuned")]
    assert main(["compare", *runs, "--documents"]) == 0
    shown = capsys.readouterr().out
    assert f"{change:+.4f}" in shown
    assert "quiz@mcqa: up:" in shown
    assert main(["compare", *runs, "--fail_below", "0.5"]) == 1
    assert f"fails: quiz@mcqa: {change:+.4f} is below +0.5 (with 95 % confidence below" in capsys.readouterr().err
    assert main(["compare", *runs, "--fail_below", str(change + 0.001)]) == 0
    assert "is not excluded: quiz@mcqa, quiz@cloze; more documents would tell" in capsys.readouterr().err
    assert main(["compare", *runs, "--fail_below", str(change + 0.001), "--strict"]) == 1
    capsys.readouterr()
    assert main(["compare", *runs, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["forms"][0]["name"] == "quiz@mcqa"


def test_forms_and_documents_that_the_second_run_lacks_fail_the_gate(
    base: Results, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base.save(tmp_path / "base")
    run(0, "quiz@mcqa", limit=25).save(tmp_path / "part")
    runs = [str(tmp_path / "base"), str(tmp_path / "part")]
    assert main(["compare", *runs, "--fail_below", "-0.02"]) == 1
    assert "lacks forms or documents of" in capsys.readouterr().err
    assert main(["compare", *runs, "--fail_below", "-0.02", "--allow_missing"]) == 0
    assert main(["compare", *runs, "--strict"]) == 2
    assert "--strict: there is no limit to check; give e.g. --fail_below" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize("forms", [1, 14])
def test_the_gate_fails_equal_models_in_one_of_twenty_runs_at_most(forms: int) -> None:
    """Equal models that flip 10 % of 144 documents, with a limit of two points."""
    generator, runs, failed = np.random.default_rng(0), 300, 0
    for _ in range(runs):
        changes = []
        for form in range(forms):
            base_right = generator.random(144) < 0.6
            flips = generator.random(144) < 0.1
            table = document_scores(np.stack([base_right ^ flips, base_right], axis=1))
            difference = paired_difference(table)
            changes.append(
                FormChange(
                    name=f"t@{form}", metric="acc", first=difference.estimate, second=difference.estimate,
                    difference=difference.estimate, paired=True, p=difference.p, p_holm=None, higher_is_better=True,
                )
            )  # fmt: skip
        # Flips are as often right as wrong only if the rate is a half: the second model is 0.02 worse at most.
        failed += bool(gate(changes, -0.02)["FAIL"])
    assert failed / runs <= 0.05 + 0.025


def test_two_runs_are_compared_over_their_wordings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = run(0, "quiz@mcqa~5"), run(1, "quiz@mcqa~5")
    (change,) = compare_wordings(first, second)
    scores = [[results[form]["acc"] for form in results] for results in (first, second)]
    assert change.population.mean.value == pytest.approx(np.mean(scores[1]) - np.mean(scores[0]))
    assert 0 <= change.reversal <= 0.5
    first.save(tmp_path / "a")
    second.save(tmp_path / "b")
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert "quiz@mcqa: over 6 wordings B − A is" in capsys.readouterr().out


def test_a_score_that_should_fall_fails_where_it_rises(tmp_path: Path) -> None:
    runs = [run(seed, "quiz@bpb") for seed in (0, 1)]
    (entry,) = compare_runs(*runs)
    assert entry.gain == -entry.difference.value


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_a_terminal_of_any_width_shows_names_and_scores_whole(
    columns: int, base: Results, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    base.save(tmp_path / "base")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["compare", str(tmp_path / "base"), str(tmp_path / "base")]) == 0
    shown = capsys.readouterr().out
    assert "quiz@mcqa" in shown
    assert f"{base['quiz@mcqa']['acc']:.4f}" in shown
    assert "+0.0000" in shown
    assert "…" not in shown
    assert "u001b" not in shown  # nor are codes of colours taken for text
    assert max(map(len, shown.splitlines())) <= columns
    heading = [line.split() for line in shown.splitlines() if line.startswith(" Form ")]
    assert heading == [["Form", "A", "B", "−", "A", "p", "up"]] if columns <= 80 else heading[0][1] == "Metric"


def test_perplexities_are_subtracted_as_they_are_printed(tmp_path: Path) -> None:
    """Their documents have log-likelihoods, whose mean difference is no difference of perplexities."""
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"text": f"{n} and {n}"}) + "\n" for n in range(6)))
    (tmp_path / "words.yaml").write_text(
        "task: words\ndataset_path: rows.jsonl\ntest_split: test\noutput_type: loglikelihood\n"
        "doc_to_text: '{{text}}'\ndoc_to_target: ' {{text}}'\nmetric_list: [{metric: perplexity}]\n"
    )
    runs = [run(seed, f"{tmp_path}/words.yaml", None) for seed in (0, 1)]
    (entry,) = compare_runs(*runs)
    assert entry.difference.value == pytest.approx(runs[1]["words"]["perplexity"] - runs[0]["words"]["perplexity"])
    assert (entry.paired, entry.gain) == (False, -entry.difference.value)


def test_scores_of_different_kinds_are_refused() -> None:
    with pytest.raises(
        UsageError, match="acc of quiz@mcqa and bits_per_byte of quiz@bpb are not scores of the same kind"
    ):
        compare_runs(run(0, "quiz@mcqa"), run(0, "quiz@bpb"))


def test_documents_of_one_passage_are_one_cluster() -> None:
    runs = [
        evaluate(model="dummy", model_args={"seed": seed}, tasks="quiz@mcqa", metadata=metadata, progress=False)
        for metadata in ({}, {"cluster": "subject"})
        for seed in (0, 1)
    ]
    (alone,), (clustered,) = compare_runs(*runs[:2]), compare_runs(*runs[2:])
    assert alone.difference.value == clustered.difference.value
    assert alone.difference.stderr != clustered.difference.stderr


def test_forms_that_only_one_run_has_are_named(
    base: Results, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base.save(tmp_path / "base")
    run(1, "quiz@cloze").save(tmp_path / "less")
    assert main(["compare", f"{tmp_path}/base", f"{tmp_path}/less", "--json"]) == 0
    shown = capsys.readouterr()
    assert f"only {tmp_path}/base has it: quiz@mcqa" in shown.err
    assert json.loads(shown.out)["only_in_first"] == ["quiz@mcqa"]


def test_a_limit_that_is_no_number_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "a", "b", "--fail_below", "nan"]) == 2
    assert "--fail_below: expected a number, got 'nan'" in capsys.readouterr().err


def test_other_shots_and_documents_of_one_run_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [str(tmp_path / name) for name in ("base", "shots")]
    for folder, shots, limit in zip(folders, (0, 2), (30, 20), strict=True):
        evaluate(
            model="dummy",
            tasks="quiz@mcqa",
            num_fewshot=shots,
            limit=limit,
            output_path=folder,
            log_samples=True,
            progress=False,
        )
    assert main(["compare", *folders]) == 0
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "quiz@mcqa: not the same in both runs: num_fewshot (0 and 2), prompts",
        f"quiz@mcqa: over the 20 documents that both have; 10 only in {folders[0]}",
    ]


def test_left_out_documents_are_counted_once_for_forms_of_the_same_documents(
    base: Results, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base.save(tmp_path / "base")
    run(1, limit=20).save(tmp_path / "less")
    assert main(["compare", f"{tmp_path}/base", f"{tmp_path}/less"]) == 0
    words = f"each over the 20 documents that both have; 40 only in {tmp_path}/base"
    assert f"quiz@mcqa, quiz@cloze: {words}" in capsys.readouterr().err


def test_runs_that_differ_by_the_model_alone_need_no_caution(base: Results, tuned: Results) -> None:
    for entry in compare_runs(base, tuned):
        assert (entry.settings, entry.left_out) == ((), (0, 0))
