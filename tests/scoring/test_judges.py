"""Judges on a server: pairs in both orders, several judges, JSON, refusals, cache, costs, and labels of people."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from multiform import ConfigError, DataError, ModelError, Results, TaskConfig, UsageError, evaluate
from multiform.cli.main import main
from multiform.models.prices import Price
from multiform.results import sample_lines
from multiform.results.notes import result_notes
from multiform.results.read import read_results
from tests.models.fake_server import FakeServer, Fault, fake_server

ANSWERS = ["Paris", "Rome", "Madrid", "Lima"]
DOCS = [
    {"question": f"Which city is number {number}?", "answer": answer, "other": f"Perhaps {answer}."}
    for number, answer in enumerate(ANSWERS)
]
PAIRS = {"judge_model": "big", "baseline": "other"}


def config(docs: Sequence[Mapping[str, Any]] = DOCS, *, kwargs: Mapping[str, Any], **fields: Any) -> TaskConfig:
    stated = {"doc_to_target": "answer", **fields}
    return TaskConfig(
        task="cities",
        custom_dataset=lambda **_: {"test": [dict(doc) for doc in docs]},
        test_split="test",
        doc_to_text="question",
        output_type="generate_until",
        scorer={"type": "ai_judge", "kwargs": dict(kwargs)},
        **{name: value for name, value in stated.items() if value is not None},
    )


def run(server: FakeServer, tasks: TaskConfig, judge: Mapping[str, Any] | None = None, **options: Any) -> Results:
    arguments = {"base_url": server.base_url, **(judge or {})}
    return evaluate(model="dummy", model_args={"text": "Rome"}, tasks=[tasks], judge_args=arguments, **options)


def scores(results: Results) -> dict[str, float]:
    return {key.partition(",")[0]: estimate.value for key, estimate in results.forms[0].estimates.items()}


def answers(prompt: str) -> tuple[str, str]:
    """The two answers that a judge compares, in the order in which it sees them."""
    match = re.search(r"\[Answer A\]\n(.*?)\n\n\[Answer B\]\n(.*?)\n\nReason", prompt, re.DOTALL)
    assert match is not None
    return match[1], match[2]


def prefers_short(prompt: str) -> str:
    first, second = answers(prompt)
    return f"The shorter one.\nVerdict: {'A' if len(first) < len(second) else 'B'}"


def test_both_orders_of_a_pair_are_judged(server: FakeServer) -> None:
    server.reply = prefers_short
    results = run(server, config(kwargs=PAIRS))
    shown = [answers(asked.payload["messages"][0]["content"]) for asked in server.asked]
    assert sorted(shown) == sorted([("Rome", doc["other"]) for doc in DOCS] + [(doc["other"], "Rome") for doc in DOCS])
    assert scores(results) == {
        "judge": 1.0, "invalid": 0.0, "truncated": 0.0, "tie": 0.0, "inconsistent": 0.0, "first_place": 0.5,
    }  # fmt: skip
    assert results.forms[0].higher_is_better["inconsistent"] is False
    [line, *_] = sample_lines(results.forms[0])
    assert line["judge_text"] == "The shorter one.\nVerdict: A"
    assert line["judge_text_swapped"] == "The shorter one.\nVerdict: B"


def test_a_judge_that_always_takes_the_first_answer_has_an_order_bias(server: FakeServer) -> None:
    server.reply = lambda prompt: "Verdict: A"
    results = run(server, config(DOCS * 5, kwargs=PAIRS))
    assert scores(results) | {"invalid": 0, "truncated": 0} == {
        "judge": 0.5, "invalid": 0, "truncated": 0, "tie": 1.0, "inconsistent": 1.0, "first_place": 1.0,
    }  # fmt: skip
    [note] = [note for note in result_notes(results) if "order bias" in note]
    assert note.startswith("cities: there is an order bias: the answer shown first gets 1.000 (0.8")
    assert note.endswith("in 100% of the documents, the preference changes with the order")


def test_ties_and_unreadable_verdicts_of_pairs_count_half(server: FakeServer) -> None:
    def reply(prompt: str) -> str:
        first, second = answers(prompt)
        if "Paris" in first + second:
            return "Verdict: TIE"
        return "No idea." if "Madrid" in first + second else "**Winner: A**" if first == "Rome" else "Verdict: B"

    server.reply = reply
    results = run(server, config(kwargs=PAIRS))
    values = [line["judge"] for line in sample_lines(results.forms[0])]
    assert values == [0.5, 1.0, 0.5, 1.0]
    assert scores(results)["invalid"] == 0.25
    assert scores(results)["tie"] == 0.5
    [note] = [note for note in result_notes(results) if note.startswith("judge big")]
    assert note.endswith("verdicts: 2 unreadable (the metric `invalid`)")


def test_a_pair_needs_an_answer_to_compare_with(server: FakeServer) -> None:
    with pytest.raises(DataError, match="there is no answer to compare the completion with"):
        run(server, config([{**DOCS[0], "other": ""}], kwargs=PAIRS))
    with pytest.raises(ConfigError, match="two answers are compared by words, not on a scale"):
        run(server, config(kwargs={**PAIRS, "scale": 5}))


def test_verdicts_of_a_pair_may_have_degrees(server: FakeServer) -> None:
    server.reply = lambda prompt: "[[A>>B]]" if answers(prompt)[0] == "Rome" else "[[B>A]]"
    worth = {"A>>B": 1, "A>B": 0.75, "A=B": 0.5, "B>A": 0.25, "B>>A": 0}
    kwargs = {**PAIRS, "verdict_pattern": r"\[\[([AB<>=]+)\]\]", "verdicts": worth}
    assert scores(run(server, config(kwargs=kwargs)))["judge"] == 0.875


def test_several_judges_are_averaged_and_compared(server: FakeServer) -> None:
    server.reply = lambda prompt: f"Verdict: {'CORRECT' if 'Rome' in prompt.split('[Answer]')[0] else 'INCORRECT'}"
    with fake_server() as other:
        other.reply = lambda prompt: "Verdict: CORRECT"
        judge = {"kind": {"base_url": other.base_url}}
        results = run(server, config(kwargs={"judge_model": ["strict", "kind"]}), judge)
        assert len(other.asked) == len(server.asked) == 4
    assert scores(results) == {
        "judge": 0.625, "invalid": 0.0, "truncated": 0.0, "unanimous": 0.25, "judge(strict)": 0.25, "judge(kind)": 1.0,
    }  # fmt: skip
    [line, *_] = sample_lines(results.forms[0])
    assert (line["judge_text(strict)"], line["judge_text(kind)"]) == ("Verdict: INCORRECT", "Verdict: CORRECT")


def test_the_user_names_several_judges_of_any_kind(server: FakeServer) -> None:
    server.reply = lambda prompt: "Verdict: CORRECT"
    judge = {"local": {"judge_model": "dummy", "base_url": None, "text": "Verdict: INCORRECT"}}
    results = run(server, config(kwargs={}), judge, judge_model="big, local")
    assert scores(results)["judge"] == 0.5
    assert results.run["arguments"]["judge_model"] == "big,local"


def test_mistakes_in_the_arguments_of_a_server_show_before_the_model_runs(server: FakeServer, rendered: Any) -> None:
    with pytest.raises(UsageError, match="judge: openai-chat: unknown model argument 'tiemout'"):
        run(server, config(kwargs={"judge_model": "big"}), {"tiemout": 3})
    assert not rendered


def test_a_judge_that_is_named_twice_is_refused(server: FakeServer) -> None:
    with pytest.raises(ConfigError, match="names a judge twice"):
        run(server, config(kwargs={}), judge_model="big,big")


def test_keys_of_single_judges_are_not_in_the_results(server: FakeServer) -> None:
    server.reply = lambda prompt: "Verdict: CORRECT"
    judge = {"big": {"base_url": server.base_url, "api_key": "sk-1"}}
    results = run(server, config(kwargs={}), judge, judge_model="big")
    assert results.run["arguments"]["judge_args"]["big"]["api_key"] == "***"
    assert server.asked[0].headers["Authorization"] == "Bearer sk-1"


def test_structured_verdicts_are_json_of_a_schema(server: FakeServer) -> None:
    server.reply = lambda prompt: json.dumps({"reasoning": "It says so.", "verdict": "CORRECT"})
    results = run(server, config(kwargs={"judge_model": "big", "structured": True}))
    payload = server.asked[0].payload
    schema = payload["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["verdict"] == {"type": "string", "enum": ["CORRECT", "INCORRECT"]}
    asked = 'Answer with one JSON object and nothing else: {"reasoning": "...", "verdict": "CORRECT" or "INCORRECT"}'
    assert payload["messages"][0]["content"].endswith(asked)
    assert scores(results)["judge"] == 1.0


@pytest.mark.parametrize(
    ("text", "value", "invalid"),
    [
        ('{"reasoning": "", "verdict": 4}', 0.75, 0),
        ('Well:\n```json\n{"verdict": "4", "reasoning": "{so}"}\n```', 0.75, 0),
        ('{"reasoning": "", "verdict": 9}', 0, 1),
        ('{"reasoning": "", "verdict": true}', 0, 1),
        ('{"reasoning": "cut', 0, 1),
        ('["verdict", 4]', 0, 1),
        ("Score: 4", 0, 1),
    ],
)
def test_malformed_json_has_no_verdict(server: FakeServer, text: str, value: float, invalid: float) -> None:
    server.reply = lambda prompt: text
    kwargs = {"judge_model": "big", "structured": True, "scale": [1, 5]}
    results = run(server, config(DOCS[:1], kwargs=kwargs))
    assert (scores(results)["judge"], scores(results)["invalid"]) == (value, invalid)


def test_a_refusal_is_no_verdict_whatever_it_says(server: FakeServer) -> None:
    message = {"role": "assistant", "content": "Verdict: CORRECT", "refusal": "I will not judge this."}
    body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()
    server.reply = lambda prompt: "Verdict: CORRECT"
    server.fault_of = lambda prompt: Fault(body=body) if "number 0" in prompt else None
    results = run(server, config(kwargs={"judge_model": "big"}))
    assert (scores(results)["judge"], scores(results)["invalid"]) == (0.75, 0.25)
    assert results.run["judging"]["judges"]["big"]["refused"] == 1
    assert "verdicts: 1 refused" in " ".join(result_notes(results))


def test_words_of_more_than_two_kinds_have_their_shares(server: FakeServer) -> None:
    server.reply = lambda prompt: "NOT ATTEMPTED" if "number 0" in prompt else "CORRECT"
    kwargs = {
        "judge_model": "big",
        "verdict_pattern": "^(CORRECT|INCORRECT|NOT ATTEMPTED)$",
        "verdicts": {"correct": 1, "incorrect": 0, "not attempted": 0},
    }
    results = run(server, config(kwargs=kwargs))
    shares = {name: value for name, value in scores(results).items() if name.startswith("verdict_")}
    assert shares == {"verdict_correct": 0.75, "verdict_incorrect": 0.0, "verdict_not_attempted": 0.25}
    assert results.forms[0].higher_is_better["verdict_incorrect"] is False


def test_words_are_found_and_asked_for_without_a_pattern(server: FakeServer) -> None:
    server.reply = lambda prompt: "Verdict: FAIR" if "number 0" in prompt else "**Verdict:** good"
    results = run(server, config(kwargs={"judge_model": "big", "verdicts": {"good": 1, "fair": 0.5, "poor": 0}}))
    assert (scores(results)["judge"], scores(results)["invalid"]) == (0.875, 0.0)
    asked = server.asked[0].payload["messages"][0]["content"]
    assert asked.endswith('end with one line: "Verdict: GOOD", "Verdict: FAIR" or "Verdict: POOR".')


def test_the_majority_of_repeats_is_judged(server: FakeServer) -> None:
    server.reply = lambda prompt: "Verdict: CORRECT"
    metric_list = [{"metric": "judge", "reduction": "maj@3"}]
    results = run(server, config(kwargs={"judge_model": "big"}, repeats=3, metric_list=metric_list))
    assert scores(results)["maj@3(judge)"] == 1.0


def test_only_metrics_with_a_direction_have_an_arrow(server: FakeServer) -> None:
    server.reply = prefers_short
    text = str(run(server, config(kwargs=PAIRS)))
    assert "first_place  " in text
    assert "tie  " in text
    assert "judge ↑" in text
    assert "inconsistent ↓" in text


def test_a_task_without_references_is_judged(server: FakeServer) -> None:
    server.reply = lambda prompt: (
        "Score: 3" if "There is no reference" in prompt and "[Reference]" not in prompt else ""
    )
    results = run(server, config(kwargs={"judge_model": "big", "scale": [1, 5]}, doc_to_target=None))
    assert scores(results)["judge"] == 0.5


def test_other_metrics_still_need_references(server: FakeServer) -> None:
    tasks = config(kwargs={"judge_model": "big"}, doc_to_target=None, metric_list=[{"metric": "exact_match"}])
    with pytest.raises(ConfigError, match="doc_to_target"):
        run(server, tasks)


def test_verdicts_are_cached_by_the_judge(server: FakeServer) -> None:
    server.reply = lambda prompt: "Verdict: CORRECT"
    first = run(server, config(kwargs={"judge_model": "big"}))
    again = run(server, config(kwargs={"judge_model": "big"}))
    assert len(server.asked) == 4
    assert scores(first) == scores(again)
    assert [result.run["judging"]["judges"]["big"]["cached"] for result in (first, again)] == [0, 4]
    run(server, config(kwargs={"judge_model": "other"}))
    run(server, config(kwargs={"judge_model": "big"}), fresh=True)
    assert len(server.asked) == 12
    run(server, config(kwargs={"judge_model": "big"}), use_cache=False)
    assert len(server.asked) == 16


def test_a_judge_that_failed_in_the_middle_goes_on(server: FakeServer) -> None:
    server.reply = lambda prompt: "Verdict: CORRECT"
    server.fault_of = lambda prompt: Fault(status=400, message="no") if "number 2" in prompt else None
    with pytest.raises(ModelError, match=r"judge: 1 of 4 requests failed: HTTP 400: no; run the same command again"):
        run(server, config(kwargs={"judge_model": "big"}))
    server.fault_of = lambda prompt: None
    before = len(server.asked)
    results = run(server, config(kwargs={"judge_model": "big"}))
    assert scores(results)["judge"] == 1.0
    assert len(server.asked) == before + 1


def test_tokens_and_costs_are_in_the_results(server: FakeServer, tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text("big = [2, 8]")
    server.usage = {"prompt_tokens": 1000, "completion_tokens": 100}
    server.reply = lambda prompt: "Verdict: CORRECT"
    results = run(server, config(kwargs={"judge_model": "big"}), prices=str(tmp_path / "prices.toml"))
    judge = results.run["judging"]["judges"]["big"]
    asked = len(server.asked) + sum("messages" in probe.payload for probe in server.probes)
    assert (judge["prompt_tokens"], judge["completion_tokens"]) == (1000 * asked, 100 * asked)
    assert judge["dollars"] == pytest.approx(asked * (1000 * 2 + 100 * 8) / 1e6)
    assert f"{1000 * asked:,} tokens of prompts and {100 * asked:,} of completions, 0.0" in " ".join(
        result_notes(results)
    )


def test_known_prices_need_not_be_given(server: FakeServer, monkeypatch: Any) -> None:
    server.reply = lambda prompt: "Verdict: CORRECT"
    server.usage = {"prompt_tokens": 100, "completion_tokens": 10}
    monkeypatch.setattr("multiform.models.prices._known", lambda: {(server.base_url, "big"): Price(1.0, 10.0)})
    results = run(server, config(kwargs={"judge_model": "big"}))
    judge = results.run["judging"]["judges"]["big"]
    assert judge["dollars"] == pytest.approx((judge["prompt_tokens"] + 10 * judge["completion_tokens"]) / 1e6)


def test_a_price_among_the_arguments_is_refused(server: FakeServer) -> None:
    with pytest.raises(UsageError, match="prompt_price"):
        run(server, config(kwargs={"judge_model": "big"}), {"prompt_price": 2})


def test_a_judge_of_its_own_answers_is_said_and_measured(server: FakeServer) -> None:
    server.reply = lambda prompt: "Verdict: CORRECT" if "[Answer]" in prompt else "Rome"
    tasks = config(DOCS * 4, kwargs={"judge_model": ["tiny", "other"]})
    with fake_server() as strict:
        strict.reply = lambda prompt: f"Verdict: {'CORRECT' if 'number 1' in prompt else 'INCORRECT'}"
        arguments = {"model": "tiny", "base_url": server.base_url}
        judge = {"base_url": server.base_url, "other": {"base_url": strict.base_url}}
        results = evaluate(model="openai-chat", model_args=arguments, tasks=[tasks], judge_args=judge)
    assert results.run["judging"]["kin"] == {"tiny": "itself"}
    assert results.run["judging"]["self_preference"]["cities"]["tiny"]["value"] == 0.75
    [note] = [note for note in result_notes(results) if "may prefer its own answers" in note]
    assert note.startswith("judge tiny is the model that it judges, and may prefer its own answers: cities: +0.750 (")


def test_the_other_judges_of_a_conversation_are_not_its_turns(server: FakeServer) -> None:
    server.reply = lambda prompt: "Verdict: CORRECT" if "[Answer]" in prompt else "Rome"
    docs = [{**doc, "turns": ["Sure?"]} for doc in DOCS]
    tasks = config(docs, kwargs={"judge_model": ["tiny", "other"]}, doc_to_turns="turns", doc_to_target=None)
    with fake_server() as strict:
        strict.reply = lambda prompt: "Verdict: INCORRECT"
        arguments = {"model": "tiny", "base_url": server.base_url}
        judge = {"base_url": server.base_url, "other": {"base_url": strict.base_url}}
        results = evaluate(model="openai-chat", model_args=arguments, tasks=[tasks], judge_args=judge)
    assert results.run["judging"]["self_preference"]["cities"]["tiny"]["value"] == 1.0


def labels_file(path: Path, labels: Sequence[Mapping[str, Any]]) -> str:
    path.write_text("".join(json.dumps(label) + "\n" for label in labels))
    return str(path)


def test_labels_of_people_calibrate_the_judge(server: FakeServer, tmp_path: Path) -> None:
    server.reply = lambda prompt: f"Verdict: {'INCORRECT' if 'number 0' in prompt else 'CORRECT'}"
    labels = labels_file(tmp_path / "labels.jsonl", [{"doc_id": i, "label": float(i % 4 > 1)} for i in range(40)])
    results = run(server, config(DOCS * 50, kwargs={"judge_model": "big"}), judge_labels=labels)
    estimate = results.forms[0].estimates["judge_calibrated,none"]
    assert scores(results)["judge"] == 0.75
    assert estimate.value == pytest.approx(0.5, abs=0.01)
    assert estimate.covers(0.5)
    assert not estimate.covers(0.75)
    numbers = results.run["judging"]["calibration"]["cities"]
    assert numbers["labels"] == 40
    assert numbers["bias"]["value"] == pytest.approx(0.25)
    [note] = [note for note in result_notes(results) if "people would give" in note]
    assert "by 40 labels; the judge scores 0.250 (" in note
    assert note.endswith("higher than they do, and gives the same in 75% of the documents")
    lines = list(sample_lines(results.forms[0]))
    assert [line.get("human") for line in lines[38:42]] == [1.0, 1.0, None, None]


def test_labels_of_other_completions_are_not_used(server: FakeServer, tmp_path: Path, caplog: Any) -> None:
    server.reply = lambda prompt: "Verdict: CORRECT"
    rows = [{"doc_id": i, "label": "incorrect", "completion": "Rome" if i else "Milan"} for i in range(12)]
    labels = labels_file(tmp_path / "labels.jsonl", rows)
    results = run(server, config(DOCS * 10, kwargs={"judge_model": "big"}), judge_labels=labels)
    assert results.run["judging"]["calibration"]["cities"]["labels"] == 11
    assert "cities: 1 of 12 labels are not used, as the model has written another completion since" in caplog.text


def test_two_labels_of_one_completion_are_refused(tmp_path: Path) -> None:
    labels = labels_file(tmp_path / "labels.jsonl", [{"doc_id": 3, "label": 1}, {"doc_id": 3, "label": 0}])
    with pytest.raises(DataError, match="doc 3 has two labels"):
        evaluate(model="dummy", tasks="quiz@mcqa", limit=1, judge_labels=labels)


def test_labels_for_no_judge_are_said(tmp_path: Path, caplog: Any) -> None:
    labels = labels_file(tmp_path / "labels.jsonl", [{"doc_id": 0, "label": 1}])
    evaluate(model="dummy", tasks="quiz@mcqa", limit=1, judge_labels=labels)
    assert "--judge_labels changes nothing: no task of this run has a judge" in caplog.text


def test_few_labels_say_too_little(server: FakeServer, tmp_path: Path, caplog: Any) -> None:
    server.reply = lambda prompt: "Verdict: CORRECT"
    labels = labels_file(tmp_path / "labels.jsonl", [{"doc_id": 0, "label": 1}])
    results = run(server, config(kwargs={"judge_model": "big"}), judge_labels=labels)
    assert "judge_calibrated" not in scores(results)
    assert "cities: the judge is not calibrated by 1 labels: 10 labels are needed" in caplog.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"doc_id": 1}', "row 1: expected doc_id and label"),
        ('{"doc_id": -1, "label": 1}', "row 1: expected doc_id and label"),
        ('{"doc_id": 0, "label": 1}\n[1]', r"labels\.jsonl:2: expected an object"),
        ("{", r"labels\.jsonl:1"),
    ],
)
def test_a_bad_file_of_labels_is_refused_before_the_run(
    server: FakeServer, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "labels.jsonl").write_text(text)
    with pytest.raises((DataError, UsageError), match=message):
        run(server, config(kwargs={"judge_model": "big"}), judge_labels=str(tmp_path / "labels.jsonl"))
    assert not server.asked


def test_a_recorded_run_is_calibrated_by_labels_of_a_table(server: FakeServer, tmp_path: Path, capsys: Any) -> None:
    server.reply = lambda prompt: "Verdict: CORRECT"
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in DOCS * 10))
    (tmp_path / "task.yaml").write_text(
        "task: t\ndataset_path: rows.jsonl\ntest_split: test\noutput_type: generate_until\ndoc_to_text: question\n"
        "doc_to_target: answer\nscorer: {type: ai_judge, kwargs: {judge_model: big}}\n"
    )
    out, judge = tmp_path / "out", ["--judge_args", f"base_url={server.base_url}"]
    command = ["run", str(tmp_path / "task.yaml"), "--model", "dummy", *judge, "--output_path", str(out), "-s"]
    assert main(command) == 0
    (tmp_path / "labels.csv").write_text("doc_id,label\n" + "".join(f"{i},{i % 2}\n" for i in range(20)))
    capsys.readouterr()
    again = tmp_path / "again"
    asked = len(server.asked)
    flags = ["--judge_labels", str(tmp_path / "labels.csv"), "--output_path", str(again)]
    assert main(["score", str(out), *judge, *flags]) == 0
    assert "judge_calibrated" in capsys.readouterr().out
    assert len(server.asked) == asked  # the verdicts are cached
    read = read_results(again)
    assert read["t"]["judge_calibrated"] == pytest.approx(0.5, abs=0.05)
    assert any("people would give" in note for note in result_notes(read))


@pytest.mark.bundled
def test_a_local_model_judges_and_counts_its_tokens(bundled_path: Path) -> None:
    tasks = config(DOCS[:2], kwargs={"judge_model": "hf", "gen_kwargs": {"max_gen_toks": 8}})
    options: dict[str, Any] = {"judge_args": {"pretrained": str(bundled_path)}, "tasks": [tasks]}
    first, again = (evaluate(model="dummy", model_args={"text": "Rome"}, **options) for _ in range(2))
    usage = [results.run["judging"]["judges"]["hf"] for results in (first, again)]
    assert (usage[0]["requests"], usage[0]["cached"], usage[1]["cached"]) == (2, 0, 2)
    assert usage[0]["prompt_tokens"] > 50
    assert 0 < usage[0]["completion_tokens"] <= 16
    assert scores(first) == scores(again)
