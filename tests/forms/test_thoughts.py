"""Where a thought begins and ends in a chat: by what chat templates write, compared with transformers' own rendering.

The templates of current models are not part of this repository. With MULTIFORM_CHAT_TEMPLATES set to a folder of them
(llama.cpp has one under models/templates), every one is checked.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from jinja2 import TemplateError
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from multiform import DataError, RunSettings, Task, TaskConfig, TaskManager
from multiform.errors import ModelError
from multiform.forms.thoughts import ThoughtMarkers, find_markers
from multiform.prompts.chat import ChatTemplate
from multiform.requests import Completion, GenerationRequest

FOLDER = os.environ.get("MULTIFORM_CHAT_TEMPLATES")
FILES = sorted(Path(FOLDER).glob("*.jinja")) if FOLDER else []
#: What templates raise that cannot write a conversation.
FAILURES = (TemplateError, TypeError, ValueError, LookupError, AttributeError)
QUESTION = [{"role": "user", "content": "2 + 2?"}]
TURNS = "{% for m in messages %}<|{{ m.role }}|>"
BEGIN = "{% if add_generation_prompt %}<|assistant|>"
#: Chat templates of the kinds that models have, written for these tests, and the markers of each.
KINDS: dict[str, tuple[str, ThoughtMarkers | None]] = {
    "written as a field": (
        TURNS + "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}"
        "{{ m.content }}<|end|>{% endfor %}" + BEGIN + "{% endif %}",
        ThoughtMarkers("<think>\n", "\n</think>\n\n"),
    ),
    "begun by the template, and dropped from answers": (
        TURNS + "{{ m.content }}<|end|>{% endfor %}" + BEGIN + "<think>\n{% endif %}",
        ThoughtMarkers("<think>\n", "\n</think>\n\n"),
    ),
    "empty before answers": (
        TURNS + "{% if m.role == 'assistant' %}<think></think>{% endif %}{{ m.content }}<|end|>{% endfor %}"
        + BEGIN + "{% endif %}",
        ThoughtMarkers("<think>", "</think>"),
    ),
    "in a channel": (
        TURNS + "{% if m.thinking %}<|channel|>analysis<|message|>{{ m.thinking }}<|end|><|assistant|>{% endif %}"
        "{% if m.role == 'assistant' %}<|channel|>final<|message|>{% endif %}{{ m.content }}<|end|>{% endfor %}"
        + BEGIN + "{% endif %}",
        ThoughtMarkers("<|channel|>analysis<|message|>", "<|end|><|assistant|><|channel|>final<|message|>"),
    ),
    "none": (TURNS + "{{ m.content }}<|end|>{% endfor %}" + BEGIN + "{% endif %}", None),
}  # fmt: skip


def chat(template: str, name: str = "m", **variables: Any) -> ChatTemplate:
    tokenizer: Any = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.BPE()), bos_token="<s>", eos_token="</s>", chat_template=template
    )
    return ChatTemplate(tokenizer=tokenizer, model=name, apply=tokenizer.apply_chat_template, variables=variables)


@pytest.mark.parametrize("kind", KINDS)
def test_markers_are_those_that_the_template_writes(kind):
    template, expected = KINDS[kind]
    assert find_markers(chat(template).apply_chat_template) == expected


def test_a_thought_that_the_template_began_is_not_begun_again():
    template, markers = KINDS["begun by the template, and dropped from answers"]
    prompt = chat(template).apply_chat_template(QUESTION)
    assert markers is not None
    assert markers.begin(prompt) == prompt
    assert markers.lead(prompt, "Four.", "The answer is") == f"{prompt}Four.\n</think>\n\nThe answer is"


def test_a_template_that_switched_thinking_off_leaves_plain_text():
    def switched_off(messages, add_generation_prompt):
        return write_chat(messages, add_generation_prompt) + "<think></think>" * add_generation_prompt

    task = Task.from_config(TaskManager().load("quiz@think")[0]).under(RunSettings(apply_chat_template=True))
    sample = task.sample(*next(task.doc_iterator(limit=1)), switched_off)
    (request,) = [instance.request for instance in sample.instances]
    assert isinstance(request, GenerationRequest)
    assert request.gen_kwargs["until"][0] == "The best answer is"
    assert request.context.endswith("<|assistant|><think></think>")
    following = task.form.continue_sample(sample, [Completion("Four.")], switched_off)
    assert following is not None
    assert following.instances[1].request.arguments[0] == f"{request.context}Four.\nThe best answer is"


@pytest.mark.parametrize("thinking", [None, True, False], ids=["default", "on", "off"])
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_published_template(file, thinking):
    """The text up to the answer is what transformers writes for a message with that thought and answer."""
    variables = {} if thinking is None else {"enable_thinking": thinking, "thinking": thinking}
    template = chat(file.read_text(encoding="utf-8"), file.stem, **variables)
    options = {**variables, "chat_template": template.text, "tokenize": False}
    apply = template.tokenizer.apply_chat_template
    try:
        expected = apply(QUESTION, add_generation_prompt=True, **options)
    except FAILURES:  # needs tools or functions: we refuse it, too, and name the template
        with pytest.raises(ModelError, match=file.stem):
            template.apply_chat_template(QUESTION)
        return
    prompt = template.apply_chat_template(QUESTION)
    assert prompt == expected
    begun = [*QUESTION, {"role": "assistant", "content": "The answer is"}]
    try:
        continued = apply(begun, continue_final_message=True, **options)
    except FAILURES:
        with pytest.raises(ModelError, match=file.stem):
            template.apply_chat_template(begun, add_generation_prompt=False)
    else:
        assert template.apply_chat_template(begun, add_generation_prompt=False) == continued
    markers = find_markers(template.apply_chat_template)
    if markers is None:
        return
    if markers.is_closed(prompt):
        return
    thought = dict.fromkeys(("reasoning_content", "thinking", "reasoning"), "Two and two are four.")
    whole = apply([*QUESTION, {**begun[-1], **thought}], continue_final_message=True, **options)
    if "Two and two are four." in whole:  # elsewhere the template drops thoughts, and shows nothing to compare with
        ours = markers.lead(markers.begin(prompt), "Two and two are four.", "The answer is")
        header = "Here are my reasoning steps:\n"  # which one template writes before new thoughts alone
        assert ours.replace(header, "") == whole.replace(header, "")


def write_chat(messages, add_generation_prompt):
    """A chat template that writes the thoughts of messages."""
    turns = [(turn["role"], turn.get("reasoning_content"), turn["content"]) for turn in messages]
    text = "".join(f"<|{role}|>{f'<think>{thought}</think>' if thought else ''}{said}" for role, thought, said in turns)
    return text + "<|assistant|>" * add_generation_prompt


def test_requests_that_are_made_by_hand_think_as_those_of_a_run():
    task: Any = Task.from_config(TaskManager().load("quiz@think")[0])
    chat = {"apply_chat_template": True, "chat_template": write_chat}
    doc_id, doc = next(task.doc_iterator(limit=1))
    (asked,) = task.under(RunSettings(apply_chat_template=True)).sample(doc_id, doc, write_chat).instances
    prompt = task.fewshot_context(doc, 0, fewshot_as_multiturn=True, **chat)
    (by_hand,) = task.construct_requests(doc, prompt, doc_id=doc_id, **chat)
    assert by_hand.request == asked.request
    assert by_hand.request.context.endswith("<|assistant|><think>")


def by_hand(name: str) -> Task:
    """A task whose requests are of several stages."""
    if name == "quiz@think":
        return Task.from_config(TaskManager().load(name)[0])
    doc = {"question": "2 + 2?", "turns": ["Sure?"], "answer": ["4"]}
    stages: dict[str, Any] = {"doc_to_turns": "turns", "doc_to_target": ["3", "4"]}
    if name == "a thinking budget":
        stages = {"generation_kwargs": {"thinking_budget": 8}, "doc_to_target": "answer"}
    data: dict[str, Any] = {"custom_dataset": lambda **_: {"test": [doc]}, "test_split": "test"}
    config = TaskConfig(task="t", doc_to_text="question", output_type="generate_until", **stages, **data)
    return Task.from_config(config)


@pytest.mark.parametrize("name", ["quiz@think", "a thinking budget", "a conversation"])
def test_the_first_responses_alone_are_not_scored(name):
    task = by_hand(name)
    for instance in task.build_all_requests(limit=1, apply_chat_template=True, chat_template=write_chat):
        instance.resps.append("Four.")
    with pytest.raises(DataError, match=r"only 1 of \d responses are there: later requests follow"):
        task.process_instances()
