"""Runs in the formats of other tools: judged by their own readers and schemas, and read back."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from multiform import LLOutput, Results, evaluate, read_results
from multiform.cli.main import main
from multiform.cli.report import EXPORTS
from multiform.errors import DataError
from multiform.models.dummy import DummyModel
from multiform.report.server import Viewer
from multiform.requests import FailedRequest, LoglikelihoodRequest, Response
from multiform.results.exchange.every_eval import write_every_eval
from multiform.results.exchange.exporters import write_telemetry
from multiform.results.exchange.hub import write_eval_results
from multiform.results.exchange.inspect_log import write_inspect_logs
from multiform.results.export import ending_time

SECRET = "sk-verysecret"


class Failing(DummyModel):
    """Fails on one request."""

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Iterator[Response[LLOutput]]:
        failed: Any = FailedRequest(reason="HTTP 400: no", retried=2)
        for position, output in super().loglikelihood(requests):
            yield position, failed if position == 14 else output


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A run of three forms with a failed document."""
    folder = tmp_path_factory.mktemp("run")
    tasks = "quiz@mcqa+cloze+generate"
    evaluate(model=Failing(), tasks=tasks, limit=12, on_error="skip", output_path=folder, log_samples=True)
    return read_results(folder)


def test_an_unknown_exporter_is_one_message(run: Results, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run.save(tmp_path / "run")
    assert main(["export", str(tmp_path / "run"), "--to", "inspct"]) == 2
    assert "error: --to: unknown exporter 'inspct'; did you mean 'inspect'?" in capsys.readouterr().err


def scores(results: Results) -> dict[str, Any]:
    return {
        form.name: {key: (estimate.value, estimate.stderr, estimate.low, estimate.high)
                    for key, estimate in form.estimates.items()}
        for form in results.forms
    }  # fmt: skip


def values(results: Results) -> dict[str, Any]:
    return {form.name: {(s.doc_id, s.scorer): dict(s.values) for s in form.samples} for form in results.forms}


@pytest.mark.parametrize("name", ["inspect", "eee", "lm-eval"])
def test_an_export_is_read_back_with_equal_scores(run: Results, name: str, tmp_path: Path) -> None:
    run.save(tmp_path / "run")
    assert main(["export", str(tmp_path / "run"), "--to", name, "-o", str(tmp_path / "out")]) == 0
    again = read_results(tmp_path / "out")
    assert scores(again) == scores(run)
    assert values(again) == values(run)
    assert again.status == run.status
    if name != "eee":
        assert [doc.reason for form in again.forms for doc in form.failed] == ["HTTP 400: no"]


@pytest.mark.parametrize("name", ["inspect", "eee"])
def test_compare_report_and_view_open_them(run: Results, name: str, tmp_path: Path, capsys) -> None:
    write = {"inspect": write_inspect_logs, "eee": write_every_eval}[name]
    write(run, tmp_path / "out")
    run.save(tmp_path / "run")
    assert main(["compare", str(tmp_path / "run"), str(tmp_path / "out"), "--json"]) == 0
    forms = json.loads(capsys.readouterr().out)["forms"]
    assert all(form["paired"] and form["difference"]["value"] == 0 and not form["settings"] for form in forms)
    assert main(["report", str(tmp_path / "out"), "-o", str(tmp_path / "page.html")]) == 0
    with Viewer(str(tmp_path / "out")) as viewer:
        assert len(viewer.runs.run_lines()) == 1


@pytest.mark.parametrize("read", ["eee", "inspect"])
@pytest.mark.parametrize("written", ["eee", "inspect", "lm-eval", "otel"])
def test_a_run_of_another_tool_is_exported_with_its_date(run: Results, read: str, written: str, tmp_path: Path) -> None:
    run.save(tmp_path / "run")
    assert main(["export", str(tmp_path / "run"), "--to", read, "-o", str(tmp_path / "theirs")]) == 0
    assert main(["export", str(tmp_path / "theirs"), "--to", written, "-o", str(tmp_path / "again")]) == 0
    for folder in ("theirs", "again") if written != "otel" else ("theirs",):
        ended = ending_time(read_results(tmp_path / folder))
        assert ended.replace(microsecond=0) == ending_time(run).replace(microsecond=0)


def test_inspect_reads_its_logs(run: Results, tmp_path: Path) -> None:
    log = pytest.importorskip("inspect_ai.log")
    for file, form in zip(write_inspect_logs(run, tmp_path), run.forms, strict=True):
        opened = log.read_eval_log(str(file))
        assert (opened.status, opened.eval.task) == ("success", form.name)
        assert opened.results.scores[0].metrics["mean"].value == form.estimates[form.primary].value
        assert len(opened.samples) == form.n + len(form.failed)
        assert [sample.error.message for sample in opened.samples if sample.error] == [
            doc.reason for doc in form.failed
        ]


def test_a_log_that_inspect_wrote_is_read(tmp_path: Path) -> None:
    inspect_ai = pytest.importorskip("inspect_ai")
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput
    from inspect_ai.scorer import match
    from inspect_ai.solver import solver

    @solver  # type: ignore[untyped-decorator]
    def fixed() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            state.output = ModelOutput.from_content("mockllm/model", "Default answer")
            return state

        return solve

    dataset = [Sample(input=f"Say {word}", target="Default") for word in ("a", "b", "c")]
    dataset.append(Sample(input="Say d", target="nothing"))
    task = inspect_ai.Task(dataset=dataset, solver=fixed(), scorer=match("begin"), name="words")
    for kind in ("json", "eval"):
        folder = tmp_path / kind
        (log,) = inspect_ai.eval(task, model="mockllm/model", log_dir=str(folder), log_format=kind, display="none")
        results = read_results(folder)
        assert results["words"]["match,none"] == log.results.scores[0].metrics["accuracy"].value == 0.75
        assert [sample.values for sample in results.forms[0].samples] == [{"match": 1.0}] * 3 + [{"match": 0.0}]


def test_an_archive_of_inspect_is_read(tmp_path: Path) -> None:
    samples = [
        {"id": number, "epoch": epoch, "input": [{"role": "user", "content": f"Q{number}"}], "target": "A",
         "output": {"choices": [{"message": {"content": "A"}}]}, "scores": {"match": {"value": grade, "answer": "A"}}}
        for number, epoch, grade in ((1, 1, "C"), (1, 2, "I"), (2, 1, "C"), (2, 2, "C"))
    ]  # fmt: skip
    metrics = {"accuracy": {"name": "accuracy", "value": 0.75}, "stderr": {"name": "stderr", "value": 0.25}}
    header = {
        "version": 2,
        "status": "success",
        "eval": {"task": "t", "model": "m", "created": "2026-01-01T00:00:00+00:00", "run_id": "r"},
        "results": {"completed_samples": 2, "scores": [{"name": "match", "scorer": "match", "metrics": metrics}]},
    }
    with zipfile.ZipFile(tmp_path / "2026-01-01T00-00-00+00-00_t_x.eval", "w") as archive:
        archive.writestr("header.json", json.dumps(header))
        for sample in samples:
            archive.writestr(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", json.dumps(sample))
    results = read_results(tmp_path)
    assert results["t"]["match,none"] == 0.75
    assert [(sample.doc_id, sample.values["match"]) for sample in results.forms[0].samples] == [(1, 0.5), (2, 1.0)]


def test_what_is_no_archive_is_one_message(tmp_path: Path) -> None:
    file = tmp_path / "2026-01-01T00-00-00+00-00_t_x.eval"
    file.write_text("no archive")
    with pytest.raises(DataError, match="is not an Inspect log"):
        read_results(file)


def test_every_eval_ever_is_valid_by_its_schema(run: Results, tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    if not (folder := os.environ.get("EVERY_EVAL_EVER_SCHEMAS")):
        pytest.skip("EVERY_EVAL_EVER_SCHEMAS does not name the folder of eval.schema.json")
    record, samples = write_every_eval(run, tmp_path)
    schemas = [json.loads(Path(folder, name).read_text()) for name in
               ("eval.schema.json", "instance_level_eval.schema.json")]  # fmt: skip
    jsonschema.Draft7Validator(schemas[0]).validate(json.loads(record.read_text()))
    for line in samples.read_text().splitlines():
        jsonschema.Draft7Validator(schemas[1]).validate(json.loads(line))


def test_every_eval_ever_has_the_form_and_the_extraction(run: Results, tmp_path: Path) -> None:
    record, samples = write_every_eval(run, tmp_path)
    results = json.loads(record.read_text())["evaluation_results"]
    template = json.loads(results[0]["generation_config"]["generation_args"]["prompt_template"])
    assert template["format"] == run.forms[0].format
    lines = [json.loads(line) for line in samples.read_text().splitlines()]
    assert len(lines) == json.loads(record.read_text())["detailed_evaluation_results"]["total_rows"]
    assert all(line["answer_attribution"][-1]["is_terminal"] for line in lines)


def test_the_hub_reads_its_entries(run: Results, tmp_path: Path) -> None:
    hub = pytest.importorskip("huggingface_hub")
    (file,) = write_eval_results(run, tmp_path)
    entries = hub.parse_eval_result_entries(yaml.safe_load(file.read_text()))
    assert [entry.value for entry in entries] == [form.estimates[form.primary].value for form in run.forms]


def test_telemetry_has_every_score_and_every_failure(run: Results, tmp_path: Path) -> None:
    metrics, logs = write_telemetry(run, tmp_path)
    (line,) = [json.loads(text) for text in metrics.read_text().splitlines()]
    found = line["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]
    points = [point["asDouble"] for metric in found if metric["name"] == "multiform.score.acc"
              for point in metric["gauge"]["dataPoints"]]  # fmt: skip
    assert points == [form.estimates["acc,none"].value for form in run.forms if "acc,none" in form.estimates]
    records = [record for text in logs.read_text().splitlines()
               for record in json.loads(text)["resourceLogs"][0]["scopeLogs"][0]["logRecords"]]  # fmt: skip
    assert sum(record["eventName"] == "multiform.failure" for record in records) == 1
    assert sum(record["eventName"] == "gen_ai.evaluation.result" for record in records) == sum(
        len(sample.values) for form in run.forms for sample in form.samples
    )


@pytest.mark.parametrize("name", EXPORTS)
def test_secrets_are_in_no_export(name: str, tmp_path: Path) -> None:
    arguments = {"seed": 0}
    evaluate(model="dummy", model_args=arguments, tasks="quiz@mcqa", limit=3, output_path=tmp_path / "run")
    (file,) = (tmp_path / "run").rglob("results_*.json")
    saved = json.loads(file.read_text())
    saved["config"]["model_args"] |= {"api_key": SECRET, "extra": {"auth_token": SECRET}, "header": {"x": SECRET}}
    saved["configs"]["quiz@mcqa"]["metadata"]["api_key"] = SECRET
    file.write_text(json.dumps(saved))
    assert main(["export", str(file), "--to", name, "-o", str(tmp_path / "out")]) == 0
    written = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert written
    assert not any(SECRET.encode() in path.read_bytes() for path in written)
