"""ai_judge: another model reads question, reference and answer, and its verdict counts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pytest

from multiform import ConfigError, ModelError, Results, Task, TaskConfig, evaluate
from multiform.models import Model, models, register_model
from multiform.requests import Completion, GenerationRequest
from multiform.results import sample_lines, to_json
from multiform.scoring.scorers import judge_model

DOCS = [
    {"question": "What is the capital of France?", "answer": "Paris"},
    {"question": "What is the capital of Italy?", "answer": "Rome"},
    {"question": "What is the capital of Spain?", "answer": "Madrid"},
    {"question": "Which city is called the Eternal City?", "answer": "Rome"},
]


def config(docs: Sequence[dict[str, Any]] = DOCS, *, kwargs: Mapping[str, Any], **fields: Any) -> TaskConfig:
    return TaskConfig(
        task="capitals",
        custom_dataset=lambda **_: {"test": list(docs)},
        test_split="test",
        doc_to_text="question",
        doc_to_target="answer",
        scorer={"type": "ai_judge", "kwargs": dict(kwargs)},
        **fields,
    )


def run(answer: str, *args: Any, **fields: Any) -> Results:
    return evaluate(model="dummy", model_args={"text": answer}, tasks=[config(*args, **fields)])


def scores(results: Results) -> dict[str, float]:
    return {key: value for key, value in results["capitals"].items() if "," in key and "stderr" not in key}


def compares(prompt: str) -> str:
    """A judge that looks whether the reference occurs in the answer."""
    match = re.search(r"\[Reference\]\n(.*?)\n\n\[Answer\]\n(.*?)\n\n", prompt, re.DOTALL)
    assert match is not None
    reference, answer = match.groups()
    right = reference.lower() in answer.lower()
    return f"The answer mentions {reference}: {right}.\nVerdict: {'CORRECT' if right else 'INCORRECT'}"


class Recording(Model):
    """A judge that is in this process."""

    name = identity = "recording"
    asked: ClassVar[list[list[GenerationRequest]]] = []
    made = 0
    text = "Verdict: CORRECT"

    def __init__(self, **arguments: Any) -> None:
        type(self).made += 1
        self.arguments = arguments

    def loglikelihood(self, requests: Any) -> Any:
        raise AssertionError

    loglikelihood_rolling = loglikelihood

    def generate(self, requests: Sequence[GenerationRequest]) -> Iterator[tuple[int, Completion]]:
        self.asked.append(list(requests))
        for position in reversed(range(len(requests))):  # answers come in any order
            yield position, Completion(self.text)


@pytest.fixture
def recording() -> Iterator[type[Recording]]:
    judge_model._loaded.cache_clear()
    register_model("recording")(Recording)
    Recording.asked, Recording.made, Recording.text = [], 0, "Verdict: CORRECT"
    yield Recording
    del models._entries["recording"]
    judge_model._loaded.cache_clear()


def test_a_model_on_a_server_judges(server: Any) -> None:
    server.reply = compares
    kwargs = {"judge_model": "big", "base_url": server.base_url, "model_args": {"num_concurrent": 4}}
    results = run("It is ROME, I think.", kwargs=kwargs)
    assert scores(results) == {"judge,none": 0.5, "invalid,none": 0.0, "truncated,none": 0.0}
    assert len(server.asked) == 4
    payload = server.asked[0].payload
    assert payload["model"] == "big"
    [message] = payload["messages"]
    assert message["role"] == "user"
    assert "[Question]\n" in message["content"]
    assert "[Answer]\nIt is ROME, I think.\n" in message["content"]


def test_what_the_judge_wrote_is_in_the_samples_and_not_in_the_scores(server: Any) -> None:
    server.reply = compares
    results = run("Rome", kwargs={"judge_model": "big", "base_url": server.base_url})
    lines = list(sample_lines(results.forms[0]))
    assert lines[0]["judge_text"] == "The answer mentions Paris: False.\nVerdict: INCORRECT"
    assert [line["judge"] for line in lines] == [0.0, 1.0, 0.0, 1.0]
    assert "judge_text" not in json.dumps(to_json(results)["results"])
    assert results.forms[0].higher_is_better == {"judge": True, "invalid": False, "truncated": False}


def test_the_judge_says_how_far_it_is(
    recording: type[Recording], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(judge_model, "_PAUSE", 0.0)
    with caplog.at_level("INFO", "multiform"):
        run("Rome", kwargs={"judge_model": "recording"})
    told = [record.getMessage() for record in caplog.records]
    number = len(recording.asked[0])
    assert f"the judge 'recording' runs {number} requests" in told
    assert [line.partition(",")[0] for line in told if line.startswith("judged")] == [
        f"judged {done} of {number}" for done in range(1, number + 1)
    ]


def test_an_unreadable_verdict_is_wrong_and_invalid() -> None:
    kwargs = {"judge_model": "dummy", "model_args": {"text": "Hard to say."}}
    assert scores(run("Rome", kwargs=kwargs)) == {"judge,none": 0.0, "invalid,none": 1.0, "truncated,none": 0.0}


def test_model_arguments_as_a_string() -> None:
    kwargs = {"judge_model": "dummy", "model_args": "text=Verdict: CORRECT"}
    assert scores(run("Rome", kwargs=kwargs))["judge,none"] == 1.0


def test_a_scale() -> None:
    kwargs = {"judge_model": "dummy", "model_args": {"text": "**Score:** 4"}, "scale": [1, 5]}
    assert scores(run("Rome", kwargs=kwargs))["judge,none"] == 0.75


def test_all_documents_are_one_batch_and_equal_prompts_are_asked_once(recording: type[Recording]) -> None:
    run("Rome", [*DOCS, DOCS[0]], kwargs={"judge_model": "recording"})
    [batch] = recording.asked
    assert len(batch) == len(DOCS)


def test_several_forms_share_a_judge(recording: type[Recording]) -> None:
    one = config(kwargs={"judge_model": "recording"})
    two = config(kwargs={"judge_model": "recording"}, num_fewshot=0).changed(task="others")
    evaluate(model="dummy", tasks=[one, two])
    assert recording.made == 1


def test_generation_arguments_of_the_judge(recording: type[Recording]) -> None:
    run("Rome", kwargs={"judge_model": "recording", "gen_kwargs": {"max_gen_toks": 9, "until": ["\n"]}})
    options = recording.asked[0][0].gen_kwargs
    assert options == {"max_gen_toks": 9, "until": ["\n"], "temperature": 0.0, "do_sample": False}


def test_a_rubric_of_ones_own(recording: type[Recording]) -> None:
    recording.text = "Grade: B, because. Final grade = C"
    kwargs = {
        "judge_model": "recording",
        "rubric": "{{ question }}|{{ prompt }}|{{ prediction }}|{{ reference }}|{{ references }}|{{ doc.answer }}",
        "question": "Q: {{ question }}",
        "verdict_pattern": r"(?i)grade\s*[:=]\s*([A-C])",
        "verdicts": {"A": 1, "B": 0.5, "C": 0.25},
    }
    results = run("Rome", DOCS[:1], kwargs=kwargs)
    [[request]] = recording.asked
    assert request.context.startswith("Q: What is the capital of France?|")
    assert request.context.endswith("|Rome|Paris|['Paris']|Paris")
    assert scores(results)["judge,none"] == 0.25


def test_every_repeat_is_judged_and_the_mean_counts(server: Any) -> None:
    server.reply = lambda prompt: f"Verdict: {'CORRECT' if 'not sure' in prompt else 'INCORRECT'}"
    kwargs = {"judge_model": "big", "base_url": server.base_url}
    results = evaluate(model="dummy", tasks=[config(DOCS[:1], kwargs=kwargs, repeats=40)])
    [sample] = results.forms[0].samples
    right = [output == Completion(" I am not sure") for output in sample.outputs]
    assert 0 < sum(right) < 40
    assert sample.values["judge"] == pytest.approx(sum(right) / 40)
    texts = [text for key, text in sample.values.items() if key.startswith("judge_text")]
    assert [text == "Verdict: CORRECT" for text in texts] == right


def test_metrics_of_the_task_are_kept(recording: type[Recording]) -> None:
    fields = {"metric_list": [{"metric": "exact_match"}, {"metric": "judge"}]}
    results = run("Rome", kwargs={"judge_model": "recording"}, **fields)
    assert scores(results) == {"judge,none": 1.0, "invalid,none": 0.0, "exact_match,none": 0.5}


def test_a_format_with_a_judge(recording: type[Recording]) -> None:
    kwargs = {"judge_model": "recording"}
    results = evaluate(
        model="dummy",
        tasks=[config(kwargs=kwargs, formats={"type": "cot", "scorer": {"type": "ai_judge", "kwargs": kwargs}})],
    )
    [form] = results
    assert results[form]["judge,none"] == 1.0


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        (
            {"judge_model": "bundeld"},
            r"judge_model: unknown model 'bundeld'; did you mean 'bundled'\?, or give the base",
        ),
        ({"judge_model": "dummy", "verdict_pattern": "("}, "verdict_pattern: bad regular expression"),
        ({"judge_model": "dummy", "scale": [5, 1]}, r"scale: expected the best score or \[worst, best\]"),
        ({"judge_model": "dummy", "verdicts": {"good": 7}}, "verdicts: expected words with their values from 0 to 1"),
        ({"judge_model": "dummy", "rubric": "{{ question"}, "template syntax error"),
        ({"judge_model": "dummy", "gen_kwargs": {"max_gen_toks": 0}}, "max_gen_toks is 0"),
        ({"judge_model": "dummy", "model_args": {"api_key": "sk-1"}}, "api_key would be written into the results"),
        (
            {"judge_model": "openai-chat", "model_args": {"headers": {"Authorization": "x"}}},
            "the header Authorization would be written into the results",
        ),
        (
            {"judge_model": "big", "base_url": "http://me:sk-1@localhost/v1"},
            "the user, password or parameters of base_url would be written into the results",
        ),
        (
            {"judge_model": "big", "base_url": "http://localhost/v1?api-key=sk-1"},
            "the user, password or parameters of base_url would be written into the results",
        ),
        ({}, "missing 1 required keyword-only argument: 'judge_model'"),
    ],
)
def test_mistakes_show_before_any_model_is_asked(kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        run("Rome", kwargs=kwargs)
    assert "sk-1" not in str(caught.value)


def test_a_rubric_that_names_what_is_not_there() -> None:
    with pytest.raises(Exception, match=r"scorer.kwargs.rubric: document 0 of those scored: no column 'refrence'"):
        run("Rome", kwargs={"judge_model": "dummy", "rubric": "{{ refrence }}"})


def test_a_judge_that_fails(server: Any) -> None:
    server.fail(status=400, message="no such model")
    with pytest.raises(ModelError, match=r"judge: a request failed: HTTP 400: no such model"):
        run("Rome", kwargs={"judge_model": "big", "base_url": server.base_url})


def test_a_judge_that_leaves_requests_out(recording: type[Recording], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recording, "generate", lambda self, requests: iter(()))
    with pytest.raises(ModelError, match="left 4 of 4 requests without a response"):
        run("Rome", kwargs={"judge_model": "recording"})


def test_a_form_without_text_cannot_be_judged() -> None:
    fields = {"output_type": "multiple_choice", "doc_to_choice": ["Paris", "Rome", "Madrid"]}
    with pytest.raises(ConfigError, match="ai_judge scores generated completions"):
        run("x", kwargs={"judge_model": "dummy"}, **fields)


def test_a_model_of_a_known_provider_needs_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    known = judge_model.check_judge("claude-sonnet-4-6", {})
    assert known == judge_model.JudgeSpec.of("anthropic", {"model": "claude-sonnet-4-6"})
    assert judge_model.check_judge("gemini-3-flash", {}).model == "gemini"
    served = judge_model.check_judge("claude-sonnet-4-6", {"base_url": "http://localhost/v1"})
    assert served.model == "openai-chat"


def test_the_example_of_a_scorer_with_a_judge_builds_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    task = Task.from_config(config(kwargs={"judge_model": "claude-sonnet-4-6"}))
    [scorer] = task.scoring.scorers
    assert scorer.judge_model == "claude-sonnet-4-6"  # type: ignore[attr-defined]
