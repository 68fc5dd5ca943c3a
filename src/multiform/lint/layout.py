"""Checks of the layout of prompts: white space, and few-shot examples that are unlike the questions.

White space between label and text, between sections, and before the answer; the layout of few-shot examples, their
answers, and where they come from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from os.path import commonprefix
from typing import TypeAlias

from multiform.errors import MultiformError, excerpt
from multiform.fields import Doc
from multiform.forms import Form
from multiform.forms.renderer import Renderer
from multiform.lint.findings import Finding, Hit
from multiform.lint.prompts import Probe, Prompts, Shot, literals
from multiform.prompts.prompt import Turn
from multiform.requests import Completion, GenerationRequest, Instance, LoglikelihoodRequest
from multiform.scoring.filters import INVALID

_DOUBLED = re.compile(r"(?<=\S)[ \t]{2,}(?=\S)")
_LINE_END = re.compile(r"(?<=\S)[ \t]+(?=\n)")
#: What is usually followed by a space.
_PUNCTUATION = ":;,.?!"
#: A word at the beginning of a section, such as "Answer:" or "B)".
_LABEL = re.compile(r"[^\W_]+ ?[:.)]")
#: Characters of scripts that are written without spaces: Thai to Tibetan, Burmese, Khmer, Chinese and Japanese.
_UNSPACED = re.compile(
    "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
)

#: What stands after a message.
_KEYS = {"system": "description", "user": "target_delimiter", "assistant": "fewshot_delimiter"}
_WHAT: dict[str, str] = {
    "missing_space": "a space is missing",
    "doubled_space": "two spaces in a row",
    "trailing_space": "a space at the end of a line",
    "glued_sections": "sections without anything between them",
}


def space_hits(prompts: Prompts) -> Iterator[Hit]:
    """Wrong white space in questions, between the parts of prompts, and where answers begin."""
    form = prompts.form
    template = form.where("doc_to_text" if form.format is None else "formats")
    for probe in prompts.probes:
        for code, example in _template_faults(probe):
            yield _hit(code, template, probe.doc_id, example, "correct the template, or trim the column")
        if not prompts.chat:
            yield from _joint_hits(prompts, probe)
    yield from _request_hits(prompts)


def _template_faults(probe: Probe) -> Iterator[tuple[str, str]]:
    """The faults of a question where its template meets the texts of the document, each with the place in it."""
    for part in literals(probe.question) if probe.question is not None else ():
        text, left, right = part.text, part.before[-1:], part.after[:1]
        around = part.before[-12:] + text + part.after[:12]
        if _DOUBLED.search(left + text + right):
            yield "doubled_space", around
        if _LINE_END.search(left + text):
            yield "trailing_space", around
        if _wants_space(text[-1:], right):
            yield "missing_space", around
        # Another text of the document follows, or a word that begins something new.
        if (not text or text[0].isupper() or _LABEL.match(text)) and _wants_space(left, text[:1] or right):
            yield "glued_sections", around


def _wants_space(before: str, after: str) -> bool:
    """Whether two characters that touch should have a space between them.

    >>> _wants_space(":", "P"), _wants_space("(", "P"), _wants_space(" ", "P"), _wants_space(":", "答")
    (True, False, False, False)
    """
    if not before or not after or not (before.isalnum() or before in _PUNCTUATION) or not after.isalnum():
        return False
    return not _UNSPACED.match(before) and not _UNSPACED.match(after)


def _joint_hits(prompts: Prompts, probe: Probe) -> Iterator[Hit]:
    """Faults between description, few-shot examples and question, and between an example and its answer."""
    for message, following in zip(probe.turns, probe.turns[1:], strict=False):
        code, key = _joint_fault(message, following), _KEYS[message.role]
        if code is not None:
            example = (message.content + message.after)[-30:] + following.content[:20]
            yield _hit(code, prompts.form.where(key), probe.doc_id, example, f"change {key}")


def _joint_fault(message: Turn, following: Turn) -> str | None:
    before, after = message.content + message.after, following.content
    if not before or not after:
        return None
    if before[-1] in " \t" and after[0] in " \t":
        return "doubled_space"
    if message.role == "user":
        return "missing_space" if _wants_space(before[-1], after[0]) else None
    touching = not before[-1].isspace() and not after[0].isspace() and not _UNSPACED.match(before[-1])
    return "glued_sections" if touching else None


def _request_hits(prompts: Prompts) -> Iterator[Hit]:
    """Faults where the answer begins, and at the end of what is scored or completed."""
    form, delimiter = prompts.form, prompts.delimiter_key
    change = "let doc_to_target begin with the space" if delimiter == "doc_to_target" else f"change {delimiter}"
    for sample in prompts.samples:
        for instance in sample.instances:
            request = instance.request
            if isinstance(request, LoglikelihoodRequest):
                for code, key, example in _border_faults(request.context, request.continuation, prompts):
                    message = "an answer ends in a space" if code == "trailing_space" else None
                    hint = change if code == "missing_space" else f"remove it, or change {delimiter}"
                    yield _hit(code, form.where(key), sample.doc_id, example, hint, message)
            elif isinstance(request, GenerationRequest) and request.context[-1:] in (" ", "\t"):
                if prompts.chat and not sample.gen_prefix:
                    continue  # the end of a chat is the chat template's
                place = form.where("gen_prefix" if sample.gen_prefix else "doc_to_text")
                message, example = "the prompt ends in a space", request.context[-30:]
                yield _hit("trailing_space", place, sample.doc_id, example, "remove it", message)


def _border_faults(context: str, continuation: str, prompts: Prompts) -> Iterator[tuple[str, str, str]]:
    """Each fault between a prompt and what is scored after it: its code, the key to change, and the place."""
    answers = "doc_to_target" if prompts.delimiter_key == "doc_to_target" else "doc_to_choice"
    around = context[-20:] + continuation[:20]
    spaces = len(continuation) - len(continuation.lstrip(" \t"))
    if spaces and context[-1:] in (" ", "\t"):
        yield "doubled_space", "doc_to_text", around
    elif spaces > 1:
        yield "doubled_space", answers, around
    if context and continuation and not prompts.chat and _wants_space(context[-1], continuation[0]):
        yield "missing_space", prompts.delimiter_key, around
    if continuation.strip() and continuation[-1] in " \t":
        yield "trailing_space", answers, continuation[-30:]


def _hit(code: str, where: str | None, doc_id: int, example: str, advice: str, what: str | None = None) -> Hit:
    return Hit(doc_id, code, where, what or _WHAT[code], excerpt(example, 90), advice)


# Few-shot examples.

#: The least number of documents from which the text that all have in common is known.
_LEAST = 5
#: The least number of characters, with a letter, of a text that makes a layout.
_LONG = 3


def shot_findings(prompts: Prompts) -> list[Finding]:
    """The findings about the few-shot examples of a form."""
    return [*_layout(prompts), *_border(prompts), *_answers(prompts)] if prompts.shots else []


#: The common beginning and end of several texts, apart from white space.
_Frame: TypeAlias = tuple[str, str]


def _frame(beginnings: Sequence[str], ends: Sequence[str]) -> _Frame:
    backwards = [_one_line(end)[::-1] for end in ends]
    return commonprefix(list(map(_one_line, beginnings))), commonprefix(backwards)[::-1]  # noqa: RUF071


def _text_frame(texts: Sequence[str]) -> _Frame:
    distinct = list(dict.fromkeys(texts))
    return _frame(distinct, distinct) if len(distinct) >= _LEAST else ("", "")


def _missing_part(frame: _Frame, texts: Sequence[str]) -> str | None:
    """The part of a frame that none of the texts has."""
    spaced, (begin, end) = [_one_line(text) for text in texts], frame
    if _is_layout(end) and not any(end.strip() in text for text in spaced):
        return end
    lacks_begin = not any(text.startswith(begin.strip()) for text in spaced)
    return begin if lacks_begin and _is_layout(begin) else None


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _is_layout(text: str) -> bool:
    return len(text.strip()) >= _LONG and any(character.isalpha() for character in text)


def _layout(prompts: Prompts) -> Iterator[Finding]:
    """Examples without the text that all questions have, or the other way round.

    The answer of an example belongs to it: "Let's think step by step." may end the question or begin the answer.
    """
    questions = list(prompts.questions.values())
    examples = [shot.question.content for shot in prompts.shots]
    solved = [shot.question.content + shot.question.after + shot.answer.content for shot in prompts.shots]
    # The text of the template around the questions, or what all have in common if that is not known.
    parts = [list(literals(probe.question)) for probe in prompts.probes if probe.question is not None]
    if len(parts) < len(questions):
        question_frame = _text_frame(questions)
    else:
        question_frame = _frame([first.text for first, *_ in parts], [last.text for *_, last in parts])
    for frame, others, (whose, other) in (
        (question_frame, solved, ("questions", "examples")),
        (_text_frame(examples), questions, ("examples", "questions")),
    ):
        missing = _missing_part(frame, others)
        if missing is not None:
            problem = f"all {whose} have {excerpt(missing[-40:], 60)}, and none of the {other} has it"
            yield _finding(prompts, problem, f"an example: {excerpt(examples[0][-60:], 90)}")
            return


def _border(prompts: Prompts) -> Iterator[Finding]:
    """Answers of examples after other white space than those that are scored."""
    if prompts.chat or prompts.form.output_type != "multiple_choice":
        return
    contexts = {
        _gap(instance.request.context, instance.request.continuation)
        for sample in prompts.samples
        for instance in sample.instances
        if isinstance(instance.request, LoglikelihoodRequest) and instance.request.context
    }
    shown = {_gap(shot.question.content + shot.question.after, shot.answer.content) for shot in prompts.shots}
    if contexts and not contexts & shown:
        problem = f"answers of examples follow {_one_of(shown)}, and those that are scored {_one_of(contexts)}"
        shot = prompts.shots[0]
        example = (shot.question.content + shot.question.after)[-20:] + shot.answer.content[:20]
        yield _finding(prompts, problem, f"an example: {excerpt(example, 60)}", "target_delimiter")


def _gap(before: str, after: str) -> str:
    return before[len(before.rstrip()) :] + after[: len(after) - len(after.lstrip())]


def _one_of(gaps: set[str]) -> str:
    gap = min(gaps)
    return excerpt(gap, 20) if gap else "nothing"


def _finding(prompts: Prompts, what: str, example: str, key: str = "doc_to_text") -> Finding:
    place = prompts.form.where("fewshot_config", key)
    return Finding.of_form(prompts.form, "shots_unlike_question", place, what, example=example)


def _answers(prompts: Prompts) -> Iterator[Finding]:
    """Examples whose answers, all of them, are none of those that are scored, or count as wrong."""
    form = prompts.form
    if form.output_type == "multiple_choice":
        wrong = [_is_no_choice(form.renderer, shot) for shot in prompts.shots]
        problem = "the answers of examples are none of the choices that are scored"
    elif form.output_type == "generate_until" and form.compares and not form.config.unsafe_code:
        wrong = [_scores_nothing(form, shot) for shot in prompts.shots]
        problem = "the answers of examples would count as wrong if a model wrote them"
    else:
        return
    if all(wrong):
        place = form.where("fewshot_config", "doc_to_target")
        example = f"an example: {excerpt(prompts.shots[0].answer.content[-60:], 90)}"
        yield Finding.of_form(form, "shots_show_other_answer", place, problem, example=example)


def _is_no_choice(renderer: Renderer, shot: Shot) -> bool:
    fields = renderer.fields(shot.doc)
    if fields.several_inputs:
        return False
    try:
        choices = fields.choices or []
    except MultiformError:  # examples may have other columns than documents
        return False
    return shot.answer.content.strip() not in [choice.strip() for choice in choices]


def _scores_nothing(form: Form, shot: Shot) -> bool:
    """Whether every metric is 0 for the answer of an example as a completion.

    Of examples that the task lists itself the short answer is not known; for these, whether no filter finds one.
    """
    listed = form.fewshot.split is None and form.fewshot.samples is not None
    request = GenerationRequest.of(shot.question.content, form.generation_kwargs)
    try:
        sample = form.renderer.with_requests(0, shot.doc, [Instance(0, 0, request)])
        completion = shot.answer.content.removeprefix(sample.gen_prefix)
        scored = form.scorer.score(sample, [Completion(completion)] * form.config.repeats)
    except MultiformError:  # examples may have other columns than documents
        return False
    if listed:
        return bool(scored) and all(entry.prediction == INVALID for entry in scored)
    values = [value for entry in scored for value in entry.values.values()]
    return bool(values) and all(isinstance(value, int | float) and value == 0 for value in values)


def pool_hits(prompts: Prompts) -> Iterator[Hit]:
    """Evaluated documents that are also among those which few-shot examples are drawn from."""
    form = prompts.form
    if not form.num_fewshot or form.has_media or form.output_type == "loglikelihood_rolling":
        return
    renderer, place = form.renderer, form.where("fewshot_split")
    what = "evaluated documents are also in the split of few-shot examples"
    pool = {_key(renderer, doc) for doc in renderer.examples.sampler.pool} - {None}
    for doc_id, doc in prompts.docs.items():
        if _key(renderer, doc) in pool:
            yield Hit(doc_id, "evaluated_docs_in_shots", place, what)


def _key(renderer: Renderer, doc: Doc) -> tuple[str, tuple[str, ...]] | None:
    """The question and the choices of a document; None if they cannot be read."""
    fields = renderer.fields(doc)
    raw = renderer.form.format is not None
    try:
        question, choices = (fields.raw_question, fields.raw_choices) if raw else (fields.question, fields.choices)
    except MultiformError:
        return None
    return str(question).strip(), tuple(choices or ())
