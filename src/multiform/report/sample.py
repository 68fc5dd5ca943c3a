"""One sample as the page shows it: its turns and where the question begins, its answer and verdict, and what the
matrix of samples says of it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from multiform.errors import quantity
from multiform.forms import ScoredSample
from multiform.prompts.prompt import shared_length
from multiform.requests import Completion, GenerationRequest, LLOutput
from multiform.results.export import sample_row
from multiform.results.extraction import is_unread
from multiform.results.samples import choices_and_labels, media_of
from multiform.results.values import FormResult

#: What can be said of a sample, as bits of a number.
WRONG, UNREADABLE, TRUNCATED, FAILED, PROMPT_TRUNCATED = 1, 2, 4, 8, 16
#: Characters of an answer in the matrix of samples.
_PICK = 16


def sample_score(sample: ScoredSample, metric: str) -> float | None:
    """The value of a metric for one document, where it is a number."""
    value = sample.values.get(metric)
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def pick(sample: ScoredSample) -> str:
    """The answer of a sample in a few characters: the label of the picked choice or its text, or what was extracted."""
    if sample.failure is not None or sample.prediction is None:
        return ""
    texts, labels = choices_and_labels(sample.sample)
    prediction = sample.prediction
    ranked = any(isinstance(output, LLOutput) for output in sample.outputs)
    if ranked and isinstance(prediction, int) and prediction < max(len(texts), len(labels)):
        prediction = labels[prediction] if prediction < len(labels) else texts[prediction]
    elif ranked:
        return ""
    while isinstance(prediction, list | tuple) and prediction:
        prediction = prediction[0]
    words = " ".join(str(prediction)[: 4 * _PICK].split())
    return words if len(words) <= _PICK else f"{words[: _PICK - 1]}…"


def flags_of(sample: ScoredSample, *, wrong: bool) -> int:
    """What can be said of a sample, as bits."""
    written = any(not isinstance(output, LLOutput) for output in sample.outputs)
    return (
        WRONG * wrong
        | UNREADABLE * (written and (sample.prediction is None or (wrong and is_unread(sample))))
        | FAILED * (sample.failure is not None)
        | TRUNCATED * any(getattr(output, "truncated", False) for output in sample.outputs)
        | PROMPT_TRUNCATED * any(getattr(output, "context_truncated", False) for output in sample.outputs)
    )


def margin(sample: ScoredSample) -> float | None:
    """By how much the best log-likelihood of a choice exceeds the second best; None for other samples."""
    ranked = sample.outputs[: len(sample.sample.choices)]
    likelihoods = sorted(output.loglikelihood for output in ranked if isinstance(output, LLOutput))
    if len(likelihoods) < 2 or not math.isfinite(likelihoods[-2]):
        return None
    return round(likelihoods[-1] - likelihoods[-2], 4)


def sample_entry(sample: ScoredSample, question_start: int) -> dict[str, Any]:
    """A sample in full; the question begins at `question_start` of its prompt. What it does not have is left out."""
    row = {**sample_row(sample), "prompt": shown_prompt(sample)}
    names = ("prompt", "choices", "labels", "loglikelihoods", "gold", "picked", "raw", "extracted")
    completions = [output for output in sample.outputs if isinstance(output, Completion)]
    scored = [output for output in sample.outputs if isinstance(output, LLOutput)]
    tokens, seconds = ([getattr(output, name) for output in scored] for name in ("tokens", "seconds"))
    thoughts = [completion.thought for completion in completions]
    costs = [_cost_words(completion) for completion in completions]
    added = {
        "turns": [{"role": turn.role, "content": turn.content} for turn in chat_turns(row["prompt"])],
        "media": [medium.summary() for medium in media_of(sample)],
        "tokens": tokens if any(tokens) else None,
        "seconds": seconds if any(seconds) else None,
        "thoughts": thoughts if any(thoughts) else None,
        "costs": costs if any(costs) else None,
        "failure": sample.failure,
        "endings": sorted(sample.endings),
        # The first step is the completion; what judges wrote is the last.
        "steps": [
            *({"step": step.name, "text": _step_text(step.value)} for step in sample.steps[1:]),
            *({"step": name, "text": value} for name, value in sample.values.items() if isinstance(value, str)),
        ],
    }
    return {
        **{name: row[name] for name in names},
        "target": None if sample.target is None else str(sample.target),
        "scores": {name: value for name, value in sample.values.items() if not isinstance(value, str)},
        "question_start": question_start,
        **{name: value for name, value in added.items() if value},
    }


def _cost_words(completion: Completion) -> str:
    """How many tokens were generated and how long that took, as far as it is known."""
    tokens = "" if completion.tokens is None else quantity(completion.tokens, "token")
    seconds = "" if completion.seconds is None else f"{completion.seconds:.2f} s"
    return " in ".join(filter(None, (tokens, seconds)))


def _step_text(value: Any) -> str:
    """What a step left, as text: of one completion that alone."""
    if isinstance(value, list | tuple) and len(value) == 1:
        return _step_text(value[0])
    return "nothing" if value is None else str(value)


#: How chat templates begin a turn, with its role, and how they end it.
_TEMPLATES = (
    (r"<\|im_start\|>(\w+)\n", r"<\|im_end\|>"),
    (r"<\|start_header_id\|>(\w+)<\|end_header_id\|>\n\n", r"<\|eot_id\|>"),
    (r"<\|header_start\|>(\w+)<\|header_end\|>\n\n", r"<\|eot\|>"),
    (r"<start_of_turn>(\w+)\n", r"<end_of_turn>"),
    (r"<\|start_of_role\|>(\w+)<\|end_of_role\|>", r"<\|end_of_text\|>"),
    (r"<\|start\|>(\w+)(?:<\|channel\|>\w+)?<\|message\|>", r"<\|end\|>|<\|return\|>"),
    (r"<\|START_OF_TURN_TOKEN\|><\|(\w+?)(?:_TOKEN)\|>", r"<\|END_OF_TURN_TOKEN\|>"),
    (r"<｜(User|Assistant)｜>", r"<｜end▁of▁sentence｜>"),
    (r"<\|(system|user|assistant)\|>\n?", r"<\|end\|>|</s>|<\|endoftext\|>"),
)
#: One of which every known template has.
_MARKS = ("<|", "<start_of_turn>", "<｜", "[INST]")
_INSTRUCTION = re.compile(r"\[INST\] ?(.*?) ?\[/INST\] ?((?:(?!</s>|\[INST\]).)*)(?:</s>)?", re.DOTALL)
_NAME = re.compile(r"\w+")
#: The most characters of a label such as "Question:" before a question.
_LABEL = 30
_ROLES = {"model": "assistant", "chatbot": "assistant", "human": "user", "developer": "system"}


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """A turn of a chat; `start` is where its content begins in the text of the prompt."""

    role: str
    content: str
    start: int


@dataclass(frozen=True, slots=True)
class Question:
    """The question of a prompt: where it begins in it, and what it says; without choices if they are a column."""

    start: int
    text: str
    #: The length of the whole prompt.
    prompt_length: int


def shown_prompt(sample: ScoredSample) -> str:
    """The prompt of a sample; of a conversation the last one, which has all that was said before."""
    contexts = [item.request.context for item in sample.instances if isinstance(item.request, GenerationRequest)]
    return contexts[-1] if len(contexts) == len(sample.outputs) > 0 else sample.sample.prompt


def chat_turns(prompt: str) -> list[ChatTurn]:
    r"""The turns of a chat: messages for a server, or the text of a known chat template; none elsewhere.

    >>> [(turn.role, turn.content) for turn in chat_turns("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")]
    [('user', 'Hi'), ('assistant', '')]
    >>> [(turn.role, turn.content) for turn in chat_turns('[{"role": "user", "content": "Hi"}]')]
    [('user', 'Hi')]
    """
    if prompt.startswith("[{"):
        return _messages(prompt)
    if not any(mark in prompt for mark in _MARKS):
        return []
    for begin, end in _TEMPLATES:
        if re.search(begin, prompt):
            return list(_template_turns(prompt, begin, end))
    return [
        turn
        for match in _INSTRUCTION.finditer(prompt)
        for turn in (
            ChatTurn("user", match.group(1), match.start(1)),
            *([ChatTurn("assistant", match.group(2), match.start(2))] if match.group(2) else []),
        )
    ]


def _messages(prompt: str) -> list[ChatTurn]:
    try:
        messages = json.loads(prompt)
    except (ValueError, RecursionError):
        return []
    if not all(isinstance(message, dict) and "role" in message and "content" in message for message in messages):
        return []
    turns, at = [], 0
    for message in messages:
        written = json.dumps(message["content"], ensure_ascii=False)
        found = prompt.find(written, at)
        at = at if found < 0 else found
        turns.append(ChatTurn(str(message["role"]), _content(message["content"]), at + written.startswith('"')))
    return turns


def _content(content: Any) -> str:
    """The text of a message; an image or audio clip among its parts is its placeholder."""
    if not isinstance(content, list):
        return str(content)
    parts = [part if isinstance(part, dict) else {"text": str(part)} for part in content]
    return "".join(
        str(part.get("text") or f"<{'audio' if 'audio' in str(part.get('type')) else 'image'}>") for part in parts
    )


def _template_turns(prompt: str, begin: str, end: str) -> Iterator[ChatTurn]:
    heads = list(re.finditer(begin, prompt))
    for number, head in enumerate(heads):
        until = heads[number + 1].start() if number + 1 < len(heads) else len(prompt)
        ended = re.compile(end).search(prompt, head.end(), until)
        role = head.group(1).lower()
        yield ChatTurn(_ROLES.get(role, role), prompt[head.end() : ended.start() if ended else until], head.end())


def with_questions(form: FormResult, samples: Iterable[ScoredSample]) -> Iterator[tuple[ScoredSample, Question]]:
    """Each sample with its question, after the description and the few-shot examples.

    In a chat, the question is in the last turn of the user. The task's delimiter says where it begins if it stands
    between the examples alone. Elsewhere it is the line with the document's own question, or what the prompts before
    and after have in common, up to a line's end. A run that is under way does not say how many examples there are.
    """
    shots = form.num_fewshot if isinstance(form.num_fewshot, int) else None
    delimiter = str(form.config.get("fewshot_delimiter") or "\n\n")
    description = str(form.config.get("description") or "")
    column = str(form.mapping.get("doc_to_text") or form.mapping.get("question") or "")
    turns = ((sample, _last_turn(shown_prompt(sample))) for sample in samples)
    previous, current = None, next(turns, None)
    while current is not None:
        following = next(turns, None)
        sample, asked = current
        neighbours = [near[1].text for near in (previous, following) if near is not None]
        own = _own_question(sample.doc, column, asked.text)
        inside = 0 if asked.multiturn else _question_start(asked.text, neighbours, shots, delimiter, description, own)
        # Messages are JSON in the prompt, where some characters are escaped.
        before = len(json.dumps(asked.text[:inside], ensure_ascii=False)) - 2 if asked.escaped else inside
        text = own if own and own in asked.text[inside:] else asked.text[inside:]
        yield sample, Question(asked.start + before, text, asked.prompt_length)
        previous, current = current, following


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the last turn of the user says, or the whole prompt; and whether its examples are turns of their own."""

    text: str
    start: int
    prompt_length: int
    escaped: bool = False
    multiturn: bool = False


def _last_turn(prompt: str) -> _Asked:
    asking = [turn for turn in chat_turns(prompt) if turn.role == "user"]
    if not asking:
        return _Asked(prompt, 0, len(prompt))
    return _Asked(asking[-1].content, asking[-1].start, len(prompt), prompt.startswith("[{"), len(asking) > 1)


def _own_question(doc: Mapping[str, Any], column: str, text: str) -> str:
    """What the document itself asks in a prompt: the column that the task names, by itself or in a template.

    Of a task whose columns are not known, the longest text of the document in the prompt; empty where there is none.

    >>> _own_question({"q": " Why? "}, "{{q|trim}}", "Question: Why?")
    'Why?'
    >>> _own_question({"id": "7", "q": "Why?"}, "", "Why? 7")
    'Why?'
    """
    values = [doc[name] for name in (column, *_NAME.findall(column)) if name in doc] if column else doc.values()
    texts = [value.strip() for value in values if isinstance(value, str) and value.strip() and value.strip() in text]
    return (texts[0] if column else max(texts, key=len)) if texts else ""


def _question_start(
    text: str, neighbours: Sequence[str], shots: int | None, delimiter: str, description: str, own: str
) -> int:
    skipped = len(description) if description and text.startswith(description) else 0
    if shots == 0:
        return skipped
    if shots is not None and text.count(delimiter, skipped) == shots:
        return text.rfind(delimiter) + len(delimiter)
    if own and (place := text.rfind(own)) >= 0:
        line = text.rfind("\n", 0, place) + 1
        return line if place - line <= _LABEL else place
    return text.rfind("\n", 0, max((shared_length(text, neighbour) for neighbour in neighbours), default=0)) + 1
