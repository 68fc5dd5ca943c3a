"""ai_judge: another model reads question, reference and answer, and its verdict counts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from multiform import ConfigError, ModelError, Results, TaskConfig, UsageError, evaluate
from multiform.cli.main import main
from multiform.models import Model, models, register_model
from multiform.requests import Completion, GenerationRequest
from multiform.results import sample_lines, to_json
from multiform.scoring import judges
from multiform.scoring.judges import JudgeChoice

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


def run(answer: str, *args: Any, judge: Any = None, judge_model: Any = None, **fields: Any) -> Results:
    """A run whose user gives the arguments of the judge."""
    model_args = {"text": answer}
    tasks = [config(*args, **fields)]
    return evaluate(model="dummy", model_args=model_args, tasks=tasks, judge_args=judge, judge_model=judge_model)


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
    judges._load_judge.cache_clear()
    register_model("recording")(Recording)
    Recording.asked, Recording.made, Recording.text = [], 0, "Verdict: CORRECT"
    yield Recording
    del models._entries["recording"]
    judges._load_judge.cache_clear()


def test_a_model_on_a_server_judges(server: Any) -> None:
    server.reply = compares
    judge = {"base_url": server.base_url, "num_concurrent": 4}
    results = run("It is ROME, I think.", kwargs={"judge_model": "big"}, judge=judge)
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
    results = run("Rome", kwargs={"judge_model": "big"}, judge={"base_url": server.base_url})
    lines = list(sample_lines(results.forms[0]))
    assert lines[0]["judge_text"] == "The answer mentions Paris: False.\nVerdict: INCORRECT"
    assert [line["judge"] for line in lines] == [0.0, 1.0, 0.0, 1.0]
    assert "judge_text" not in json.dumps(to_json(results)["results"])
    assert results.forms[0].higher_is_better == {"judge": True, "invalid": False, "truncated": False}


def test_a_chat_template_may_strip_what_distinguishes_two_requests(
    recording: type[Recording], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "apply_chat_template", lambda self, messages: messages[0]["content"].strip())
    requests = [GenerationRequest.of(text, {}) for text in ("Is it Rome", "Is it Rome ", "Is it Oslo")]
    [spec] = JudgeChoice().judges(["recording"])
    responses = judges.Judging().ask(spec, requests)
    assert [responses[request].text for request in requests] == ["Verdict: CORRECT"] * 3
    assert len(recording.asked[0]) == 2


def test_the_judge_says_how_far_it_is(
    recording: type[Recording], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(judges, "_PAUSE", 0.0)
    with caplog.at_level("INFO", "multiform"):
        run("Rome", kwargs={"judge_model": "recording"})
    told = [record.getMessage() for record in caplog.records]
    number = len(recording.asked[0])
    assert f"the judge 'recording' runs {number} requests" in told
    assert [line.partition(",")[0] for line in told if line.startswith("judged")] == [
        f"judged {done} of {number}" for done in range(1, number + 1)
    ]


def test_a_judge_learns_whether_the_run_is_fresh_and_when_its_responses_are_stored(
    recording: type[Recording], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[tuple[bool, bool]] = []
    monkeypatch.setattr(recording, "begin_run", lambda self, *, fresh, flush: begun.append((fresh, flush())))
    task = config(kwargs={"judge_model": "recording"})
    for fresh in (False, True):
        evaluate(model="dummy", tasks=[task], use_cache=str(tmp_path / "store.sqlite"), fresh=fresh)
    assert begun == [(False, True), (True, True)]


def test_an_unreadable_verdict_is_wrong_and_invalid() -> None:
    results = run("Rome", kwargs={"judge_model": "dummy"}, judge={"text": "Hard to say."})
    assert scores(results) == {"judge,none": 0.0, "invalid,none": 1.0, "truncated,none": 0.0}


def test_model_arguments_as_a_string() -> None:
    results = run("Rome", kwargs={"judge_model": "dummy"}, judge="text=Verdict: CORRECT")
    assert scores(results)["judge,none"] == 1.0


def test_a_scale() -> None:
    kwargs = {"judge_model": "dummy", "scale": [1, 5]}
    assert scores(run("Rome", kwargs=kwargs, judge={"text": "**Score:** 4"}))["judge,none"] == 0.75


def test_all_documents_are_one_batch_and_equal_prompts_are_asked_once(recording: type[Recording]) -> None:
    run("Rome", [*DOCS, DOCS[0]], kwargs={"judge_model": "recording"})
    [batch] = recording.asked
    assert len(batch) == len(DOCS)


def test_several_forms_share_a_judge(recording: type[Recording]) -> None:
    one = config(kwargs={"judge_model": "recording"})
    two = config(kwargs={"judge_model": "recording"}, num_fewshot=0).replace(task="others")
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
    tasks = [config(DOCS[:1], kwargs={"judge_model": "big"}, repeats=40)]
    results = evaluate(model="dummy", tasks=tasks, judge_args={"base_url": server.base_url})
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
            r"judge_model: unknown model 'bundeld'; did you mean 'bundled'\?, or give the server",
        ),
        ({"judge_model": "dummy", "verdict_pattern": "("}, "verdict_pattern: bad regular expression"),
        ({"judge_model": "dummy", "scale": [5, 1]}, r"scale: expected the best score or \[worst, best\]"),
        ({"judge_model": "dummy", "verdicts": {"good": 7}}, "verdicts: expected words with their values from 0 to 1"),
        ({"judge_model": "dummy", "rubric": "{{ question"}, "template syntax error"),
        ({"judge_model": "dummy", "gen_kwargs": {"max_gen_toks": 0}}, "max_gen_toks is 0"),
        ({"judge_model": "dummy", "model_args": {"api_key": "sk-1"}}, r"model_args: the task says where its judge is"),
        ({"judge_model": "big", "base_url": "http://me:sk-1@localhost/v1"}, "base_url: the task says where its judge"),
        ({}, "no judge is named; name one here or in --judge_model"),
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
    with pytest.raises(ModelError, match=r"judge: 1 of 4 requests failed: HTTP 400: no such model"):
        run("Rome", kwargs={"judge_model": "big"}, judge={"base_url": server.base_url})


def test_a_judge_that_leaves_requests_out(recording: type[Recording], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recording, "generate", lambda self, requests: iter(()))
    with pytest.raises(ModelError, match="left 4 of 4 requests without a response"):
        run("Rome", kwargs={"judge_model": "recording"})


def test_a_form_without_text_cannot_be_judged() -> None:
    fields = {"output_type": "multiple_choice", "doc_to_choice": ["Paris", "Rome", "Madrid"]}
    with pytest.raises(ConfigError, match="ai_judge scores generated completions"):
        run("x", kwargs={"judge_model": "dummy"}, **fields)


#: What a stranger's task may say of its judge, and what none of it may do: send a request, or run code.
WISHES: dict[str, dict[str, Any]] = {
    "address": {"judge_model": "big", "base_url": "URL"},
    "address and key": {"judge_model": "big", "base_url": "URL", "model_args": {"api_key_env": "MY_TOKEN"}},
    "key as text": {"judge_model": "big", "base_url": "URL", "model_args": "api_key_env=MY_TOKEN"},
    "address among the arguments": {"judge_model": "openai-chat", "model_args": {"base_url": "URL", "model": "big"}},
    "key of another provider": {"judge_model": "anthropic", "model_args": {"model": "x", "api_key_env": "MY_TOKEN"}},
    "address of a provider's model": {"judge_model": "claude-sonnet-4-6", "base_url": "URL"},
    "address of another provider": {"judge_model": "gemini", "model_args": {"model": "gemini-2", "base_url": "URL"}},
    "lm-eval's name": {"judge_model": "local-chat-completions", "model_args": {"base_url": "URL", "pretrained": "big"}},
    "completions": {"judge_model": "local-completions", "model_args": {"base_url": "URL", "tokenizer": "x"}},
    "code of a model": {"judge_model": "hf", "model_args": {"pretrained": "FOLDER", "trust_remote_code": True}},
    "code as text": {"judge_model": "hf", "model_args": "pretrained=FOLDER,trust_remote_code=True"},
    "code of a tokenizer": {"judge_model": "hf", "model_args": {"tokenizer": "FOLDER", "pretrained": "FOLDER"}},
    "code in vLLM": {"judge_model": "vllm", "model_args": {"pretrained": "FOLDER", "trust_remote_code": True}},
    "weights": {"judge_model": "hf", "model_args": {"pretrained": "FOLDER"}},
    "arguments of a model that is here": {"judge_model": "bundled", "model_args": {"trust_remote_code": True}},
    "timeout": {"judge_model": "big", "model_args": {"timeout": 1}},
}


@pytest.fixture
def folder(tmp_path: Any) -> Any:
    """A model whose code leaves a trace."""
    model = tmp_path / "model"
    model.mkdir()
    auto = {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"}
    (model / "config.json").write_text(json.dumps({"model_type": "evil", "auto_map": auto}))
    (model / "evil.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w').close()\n")
    return model


@pytest.mark.parametrize("wish", WISHES.values(), ids=WISHES.keys())
@pytest.mark.parametrize("flags", [["--no_code"], []], ids=["no_code", "code"])
def test_a_task_file_does_not_choose_where_keys_go_and_whose_code_runs(
    wish: dict[str, Any], flags: list[str], server: Any, folder: Any, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.setenv("MY_TOKEN", "s3cret-canary")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "s3cret-canary")
    text = json.dumps(wish).replace("URL", server.base_url).replace("FOLDER", str(folder))
    file = folder.parent / "task.yaml"
    (folder.parent / "rows.jsonl").write_text(json.dumps(DOCS[0]))
    file.write_text(
        "task: t\ndataset_path: rows.jsonl\ntest_split: test\noutput_type: generate_until\ndoc_to_text: question\n"
        f"doc_to_target: answer\nscorer: {{type: ai_judge, kwargs: {text}}}\n"
    )
    assert main(["run", str(file), "--model", "dummy", *flags]) == 2
    said = capsys.readouterr().err
    assert "which is up to the user; remove it; if you agree with it, give the same in --judge_model and" in said
    assert "s3cret-canary" not in said
    assert server.asked == []
    assert not (folder.parent / "executed").exists()


def test_the_users_server_and_key_are_used_and_said(server: Any, monkeypatch: Any, caplog: Any) -> None:
    monkeypatch.setenv("MY_TOKEN", "sk-mine")
    server.reply = compares
    with caplog.at_level("INFO", "multiform"):
        judge = {"base_url": server.base_url, "api_key_env": "MY_TOKEN"}
        run("Rome", kwargs={"judge_model": "big"}, judge=judge)
    assert {asked.headers["Authorization"] for asked in server.asked} == {"Bearer sk-mine"}
    assert f"the judge 'big' is asked at {server.base_url}/chat/completions, with the key of $MY_TOKEN" in caplog.text


@pytest.mark.parametrize("name", ["claude-sonnet-4-6", "gpt-5-mini", "gemini-2", "openai-chat"])
@pytest.mark.parametrize("key", [{"api_key_env": "MY_TOKEN"}, {"api_key": "sk-mine"}, {"headers": {"X-Key": "k"}}])
def test_a_task_does_not_choose_the_provider_that_gets_a_key_of_the_user(key: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigError, match="the task names, which would choose where the key is sent"):
        run("Rome", kwargs={"judge_model": name}, judge=key)


def test_a_judge_that_is_called_as_an_argument_does_not_take_it_away(server: Any, caplog: Any) -> None:
    server.reply = compares
    judge = {"base_url": server.base_url, "api_key": "sk-mine", "headers": {"X-Key": "sk-other"}}
    run("Rome", kwargs={"judge_model": ["gpt-4.1", "base_url", "api_key", "headers"]}, judge=judge)
    assert len(server.asked) == 16  # all of them at the user's server
    assert {asked.headers["Authorization"] for asked in server.asked} == {"Bearer sk-mine"}
    assert {asked.headers["X-Key"] for asked in server.asked} == {"sk-other"}
    assert "sk-" not in caplog.text


def test_the_model_of_the_user_comes_first(recording: type[Recording]) -> None:
    run("Rome", kwargs={"judge_model": "claude-sonnet-4-6"}, judge_model="recording")
    assert len(recording.asked) == 1


@pytest.mark.parametrize(
    ("name", "model", "address", "key"),
    [
        ("claude-sonnet-4-6", "anthropic", "https://api.anthropic.com/v1/messages", "ANTHROPIC_API_KEY"),
        ("gpt-5-mini", "openai-chat", "https://api.openai.com/v1/chat/completions", "OPENAI_API_KEY"),
        ("o3", "openai-chat", "https://api.openai.com/v1/chat/completions", "OPENAI_API_KEY"),
        (
            "gemini-2.5-pro",
            "gemini",
            "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-pro:generateContent",
            "GEMINI_API_KEY",
        ),
    ],
)
def test_a_model_of_a_known_provider_is_asked_there_with_its_own_key(
    name: str, model: str, address: str, key: str, monkeypatch: Any, caplog: Any
) -> None:
    for variable in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GEMINI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    [spec] = JudgeChoice().judges([name])
    assert spec.model == model
    with caplog.at_level("INFO", "multiform"):
        judge = judges._load_judge(spec)
    assert judge.name == name
    assert f"the judge '{name}' is asked at {address}, with the key of ${key}" in caplog.text


@pytest.mark.parametrize("name", ["claude-x/../../evil", "gpt-4?key=", "gemini-2@evil.org", "claude", "o", "opus"])
def test_a_name_that_only_resembles_a_providers_is_unknown(name: str, monkeypatch: Any) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(ConfigError, match="unknown model"):
        JudgeChoice().judges([name])


def test_the_judge_is_in_the_results_without_its_keys(server: Any) -> None:
    server.reply = compares
    address = server.base_url.replace("//", "//me:sk-1pass@") + "?api-key=sk-2"
    judge = {"base_url": address, "api_key": "sk-3", "headers": {"X-Key": "sk-4"}, "timeout": 30}
    results = run("Rome", kwargs={"judge_model": "big"}, judge=judge)
    shown = to_json(results)["config"]["arguments"]
    assert shown["judge_args"] == {"base_url": server.base_url, "api_key": "***", "headers": "***", "timeout": 30}
    assert "sk-" not in json.dumps(to_json(results))


def test_a_judge_for_no_task_is_said(caplog: Any) -> None:
    evaluate(model="dummy", tasks="quiz@mcqa", limit=1, judge_model="dummy")
    assert "--judge_model and --judge_args change nothing: no task of this run has a judge" in caplog.text


def test_arguments_that_a_judge_does_not_take_are_an_error() -> None:
    with pytest.raises(UsageError, match="judge"):
        run("Rome", kwargs={"judge_model": "dummy"}, judge={"nope": 1})


def test_flags_and_a_config_file_choose_the_judge(server: Any, tmp_path: Any) -> None:
    server.reply = compares
    (tmp_path / "rows.jsonl").write_text(json.dumps(DOCS[0]))
    (tmp_path / "task.yaml").write_text(
        "task: t\ndataset_path: rows.jsonl\ntest_split: test\noutput_type: generate_until\ndoc_to_text: question\n"
        "doc_to_target: answer\nscorer: {type: ai_judge}\n"
    )
    (tmp_path / "run.yaml").write_text(f"judge_model: big\njudge_args: {{base_url: '{server.base_url}'}}\n")
    command = ["run", str(tmp_path / "task.yaml"), "--model", "dummy"]
    assert main([*command, "--config", str(tmp_path / "run.yaml")]) == 0
    flags = ["--judge_model", "other", "--judge_args", f"base_url={server.base_url}", "timeout=9"]
    assert main([*command, *flags]) == 0
    assert {asked.payload["model"] for asked in server.asked} == {"big", "other"}


def test_a_recorded_run_is_judged_again_by_the_judge_that_the_user_names(
    recording: type[Recording], tmp_path: Any
) -> None:
    from multiform.run.rescoring import rescore

    (tmp_path / "rows.jsonl").write_text(json.dumps(DOCS[0]))
    (tmp_path / "task.yaml").write_text(
        "task: t\ndataset_path: rows.jsonl\ntest_split: test\noutput_type: generate_until\ndoc_to_text: question\n"
        "doc_to_target: answer\n"
    )
    out = tmp_path / "out"
    assert main(["run", str(tmp_path / "task.yaml"), "--model", "dummy", "--output_path", str(out), "-s"]) == 0
    results = rescore(out, scorer={"type": "ai_judge"}, judge_model="recording")
    assert results["t"]["judge,none"] == 1.0
    assert results.run["arguments"]["judge_model"] == "recording"
