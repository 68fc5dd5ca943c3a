"""Conversations: the model replies to several turns, and each reply is part of the next prompt."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from multiform import Completion, ConfigError, DataError, Results, TaskConfig, evaluate
from multiform.cli.main import main
from multiform.models.dummy import DummyModel
from multiform.requests import GenerationRequest
from multiform.results import sample_lines
from multiform.run.rescoring import rescore
from tests.models.fake_server import FakeServer
from tests.models.fake_server_fixture import server  # noqa: F401

RIGHT = ["reply 1", None, ["yes", "reply 3"]]
DOCS: list[dict[str, Any]] = [
    {"id": n, "turns": [f"Name city {n}.", "Which country?", "Are you sure?"], "right": RIGHT} for n in range(3)
]


class Echo(DummyModel):
    """Replies with the number of user turns that it has seen; in a chat, it writes messages as tags."""

    name = identity = "echo"
    stored = True

    def __init__(self) -> None:
        super().__init__()
        self.prompts: list[str] = []

    def generate(self, requests: Sequence[GenerationRequest]) -> Iterator[tuple[int, Completion]]:
        for position, request in enumerate(requests):
            self.prompts.append(request.context)
            number = request.context.count("reply") + 1
            more = f" of repeat {request.sample}" if request.sample else ""
            yield position, Completion(f"reply {number}{more}")

    def apply_chat_template(self, messages: Any, *, add_generation_prompt: bool = True) -> str:
        text = "".join(f"<{message['role']}>{message['content']}</>" for message in messages)
        return text + ("<assistant>" if add_generation_prompt else "")


def config(docs: Sequence[Mapping[str, Any]] = DOCS, **fields: Any) -> TaskConfig:
    stated: dict[str, Any] = {"doc_to_target": "right", "metric_list": [{"metric": "exact_match"}], **fields}
    return TaskConfig(
        task="talk",
        custom_dataset=lambda **_: {"test": [dict(doc) for doc in docs]},
        test_split="test",
        **{
            "doc_to_text": "{{turns[0]}}",
            "doc_to_turns": "{{turns[1:]}}",
            "output_type": "generate_until",
            **{name: value for name, value in stated.items() if value is not None},
        },
    )


def run(model: Echo, tasks: TaskConfig, **options: Any) -> Results:
    return evaluate(model=model, tasks=[tasks], **options)


def scores(results: Results) -> dict[str, float]:
    return {key.partition(",")[0]: estimate.value for key, estimate in results.forms[0].estimates.items()}


def test_replies_are_part_of_the_next_prompt():
    model = Echo()
    run(model, config(DOCS[:1]))
    assert model.prompts == [
        "Name city 0.",
        "Name city 0. reply 1\n\nWhich country?",
        "Name city 0. reply 1\n\nWhich country? reply 2\n\nAre you sure?",
    ]


@pytest.mark.parametrize("multiturn", [True, False])
def test_turns_are_messages_of_a_chat(multiturn: bool):
    model = Echo()
    shots = {"samples": [{"turns": ["Name a river."], "right": "Po"}]}
    tasks = config(DOCS[:1], fewshot_config=shots, num_fewshot=1, description="Be brief.", metric_list=[])
    run(model, tasks, apply_chat_template=True, fewshot_as_multiturn=multiturn, predict_only=True)
    shot = "<user>Name a river.</><assistant>Po</><user>Name city 0.</>"
    opening = shot if multiturn else "<user>Name a river. Po\n\nName city 0.</>"
    assert model.prompts[2] == (
        f"<system>Be brief.</>{opening}<assistant>reply 1</><user>Which country?</><assistant>reply 2</>"
        "<user>Are you sure?</><assistant>"
    )


def test_a_server_gets_messages(server: FakeServer):  # noqa: F811
    server.reply = lambda prompt: f"You said {prompt}"
    arguments = {"model": "tiny", "base_url": server.base_url}
    evaluate(model="openai-chat", model_args=arguments, tasks=[config(DOCS[:1])], apply_chat_template=True)
    assert [asked.payload["messages"] for asked in server.asked][1] == [
        {"role": "user", "content": "Name city 0."},
        {"role": "assistant", "content": "You said Name city 0."},
        {"role": "user", "content": "Which country?"},
    ]


def test_given_replies_stand_in_for_the_models():
    turns = [{"role": "assistant", "content": "Rome."}, "Why?", {"role": "user", "content": "Really?"}]
    model = Echo()
    results = run(model, config([{"turns": ["Name a city.", *turns], "right": ["reply 1", "reply 2"]}]))
    assert model.prompts == ["Name a city. Rome.\n\nWhy?", "Name a city. Rome.\n\nWhy? reply 1\n\nReally?"]
    assert scores(results)["exact_match"] == 1.0


def test_each_turn_has_its_score_and_its_references():
    results = run(Echo(), config())
    assert scores(results) == {"exact_match": 1.0, "exact_match_turn_1": 1.0, "exact_match_turn_3": 1.0}
    assert results.forms[0].higher_is_better["exact_match_turn_1"] is True
    results = run(Echo(), config(doc_to_target="reply 1"))  # of the last reply
    assert scores(results) == {"exact_match": 0.0, "exact_match_turn_3": 0.0}


def test_repeats_are_conversations_of_their_own():
    model = Echo()
    results = run(model, config(DOCS[:1], repeats=2, doc_to_target="reply 3 of repeat 1"))
    assert "Name city 0. reply 1 of repeat 1\n\nWhich country?" in model.prompts
    [sample] = results.forms[0].samples
    assert [getattr(output, "text", None) for output in sample.outputs][4:] == ["reply 3", "reply 3 of repeat 1"]


def test_a_conversation_may_have_one_turn_and_turns_may_be_missing():
    results = run(Echo(), config([{"turns": ["Hi.", None], "right": "reply 1"}] * 2))
    assert scores(results) == {"exact_match": 1.0}


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"doc_to_turns": "id"}, DataError, "expected a list of turns, got 0"),
        ({"doc_to_turns": ["a", 7]}, DataError, "a turn is 7; give texts"),
        ({"doc_to_turns": [{"role": "system", "content": "x"}]}, DataError, "a turn is"),
        ({"doc_to_turns": [{"role": "assistant", "content": "x"}]}, DataError, "ends with a message of the assistant"),
        ({"doc_to_target": ["{{id}}", "b"]}, DataError, "there are 2 references for 3 replies"),
        ({"doc_to_target": None}, ConfigError, "the task has no doc_to_target"),
        ({"gen_prefix": "It is"}, ConfigError, "a prompt cannot begin the replies"),
        ({"output_type": "multiple_choice", "doc_to_choice": ["a", "b"]}, ConfigError, "generates nothing"),
        ({"doc_to_turns": "{{turns[1:"}, ConfigError, "doc_to_turns"),
    ],
)
def test_mistakes_are_said_before_the_model_is_asked(fields: dict[str, Any], error: Any, message: str):
    model = Echo()
    metrics: dict[str, Any] = {"metric_list": []} if fields.get("output_type") == "multiple_choice" else {}
    with pytest.raises(error, match=message):
        run(model, config(**{**fields, **metrics}))
    assert model.prompts == []


def test_a_judge_sees_the_conversation_so_far(server: FakeServer):  # noqa: F811
    server.reply = lambda prompt: f"Score: {prompt.count('reply')}"
    judge = {"judge_model": "big", "scale": [0, 5]}
    tasks = config(DOCS[:1], doc_to_target=None, metric_list=[], scorer={"type": "ai_judge", "kwargs": judge})
    results = run(Echo(), tasks, judge_args={"base_url": server.base_url})
    prompts = [asked.payload["messages"][0]["content"] for asked in server.asked]
    expected = "[Question]\n[User]\nName city 0.\n\n[Assistant]\nreply 1\n\n[User]\nWhich country?\n\n[Answer]\nreply 2"
    assert any(expected in prompt for prompt in prompts)
    assert scores(results)["judge_turn_2"] == 0.4
    assert [scores(results)[key] for key in ("judge_turn_1", "judge_turn_3")] == pytest.approx([0.2, 0.6])
    assert scores(results)["judge"] == pytest.approx(0.4)
    [line] = sample_lines(results.forms[0])
    assert line["judge_text_turn_3"] == "Score: 3"


def test_fields_of_a_scorer_know_the_turn():
    docs = [
        {
            "turns": ["a", "b"],
            "rules": [["punctuation:no_comma"], ["keywords:existence"]],
            "arguments": [[{}], [{"keywords": ["2"]}]],
        }
    ]
    kwargs = {"rules": "{{rules[turn - 1]}}", "arguments": "{{arguments[turn - 1]}}", "prompt": "{{turns[turn - 1]}}"}
    tasks = config(docs, doc_to_target=None, metric_list=[], scorer={"type": "instructions", "kwargs": kwargs})
    results = run(Echo(), tasks)
    assert scores(results)["prompt_level_strict_acc_turn_2"] == 1.0
    assert scores(results)["inst_level_strict_acc"] == 1.0


def test_a_recorded_run_is_scored_again(tmp_path: Path):
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in DOCS))
    task = tmp_path / "talk.yaml"
    task.write_text(
        "task: talk\ndataset_path: rows.jsonl\ntest_split: test\noutput_type: generate_until\n"
        'doc_to_text: "{{turns[0]}}"\ndoc_to_turns: "{{turns[1:]}}"\ndoc_to_target: right\n'
        "metric_list: [{metric: exact_match}]\n"
    )
    out = tmp_path / "out"
    first = evaluate(model=Echo(), tasks=str(task), output_path=out, log_samples=True, cache_requests=True)
    again = rescore(out, metric_list=[{"metric": "exact_match", "ignore_case": True}])
    assert scores(again) == scores(first)
    assert main(["report", str(out), "-o", str(tmp_path / "report.html")]) == 0
    unlogged = evaluate(model=Echo(), tasks=str(task), output_path=tmp_path / "other", use_cache=tmp_path / "store.db")
    assert scores(rescore(tmp_path / "other", use_cache=tmp_path / "store.db")) == scores(unlogged)


def test_show_prints_all_turns(tmp_path: Path, capsys: Any):
    (tmp_path / "rows.jsonl").write_text(json.dumps(DOCS[0]))
    task = tmp_path / "talk.yaml"
    task.write_text(
        "task: talk\ndataset_path: rows.jsonl\ntest_split: test\noutput_type: generate_until\n"
        'doc_to_text: "{{turns[0]}}"\ndoc_to_turns: "{{turns[1:]}}"\ndoc_to_target: right\n'
    )
    assert main(["show", str(task)]) == 0
    shown = capsys.readouterr().out
    assert "then, with … for what the model wrote\nName city 0. …\n\nWhich country?\n---" in shown
    assert "\nName city 0. …\n\nWhich country? …\n\nAre you sure?\n---" in shown


def test_inspect_gets_the_whole_conversation(server: FakeServer, tmp_path: Path):  # noqa: F811
    server.reply = lambda prompt: f"You said {prompt}"
    arguments = {"model": "tiny", "base_url": server.base_url}
    options: dict[str, Any] = {"apply_chat_template": True, "output_path": tmp_path / "out", "log_samples": True}
    evaluate(model="openai-chat", model_args=arguments, tasks=[config(DOCS[:1])], **options)
    assert main(["export", str(tmp_path / "out"), "--to", "inspect", "-o", str(tmp_path / "logs")]) == 0
    [log] = (tmp_path / "logs").glob("*.json")
    [sample] = json.loads(log.read_text())["samples"]
    said = [(message["role"], message["content"]) for message in sample["messages"]]
    assert said[:2] == [("user", "Name city 0."), ("assistant", "You said Name city 0.")]
    assert said[4:] == [("user", "Are you sure?"), ("assistant", "You said Are you sure?")]


#: Runs conversations of three turns; kills itself at the eighth request where the environment says so.
SCRIPT = """
import json, os, signal, sys, time
from tests.forms.test_conversations import DOCS, Echo, config
from multiform import evaluate
from multiform.results import sample_lines

class Dying(Echo):
    stored = True
    def generate(self, requests):
        for response in super().generate(requests):
            print(self.prompts[-1].replace("\\n", " "), flush=True)
            yield response
            if os.environ.get("DIES") and "Which country?" in self.prompts[-1]:
                time.sleep(1)  # until what came before is stored
                os.kill(os.getpid(), signal.SIGKILL)

results = evaluate(model=Dying(), tasks=[config()])
with open(sys.argv[1], "w") as file:
    json.dump([*sample_lines(results.forms[0])], file)
"""


@pytest.mark.process
def test_a_conversation_that_was_killed_in_the_middle_equals_one_that_was_not(tmp_path: Path):
    def start(store: str, *, dies: bool = False) -> tuple[int, list[str]]:
        environment = {**os.environ, "MULTIFORM_STORE": str(tmp_path / store), **({"DIES": "1"} if dies else {})}
        command = [sys.executable, "-c", SCRIPT, str(tmp_path / f"{store}.json")]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
        return ended.returncode, [line for line in ended.stdout.splitlines() if line.startswith("Name")]

    code, first = start("killed", dies=True)
    assert code == -signal.SIGKILL
    assert len(first) == 4  # three first turns, and one second turn
    code, rest = start("killed")
    assert code == 0
    assert len(rest) == 5
    assert not set(first) & set(rest)
    code, alone = start("alone")
    assert code == 0
    assert sorted(alone) == sorted(first + rest)
    assert (tmp_path / "killed.json").read_text() == (tmp_path / "alone.json").read_text()
