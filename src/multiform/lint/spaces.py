"""Checks of the white space in prompts: between label and text, between sections, and before the answer."""

from __future__ import annotations

import re
from collections.abc import Iterator

from multiform.errors import shorten
from multiform.lint.findings import Hit
from multiform.lint.prompts import Literal, Probe, Prompts, literals
from multiform.prompts.prompt import Turn
from multiform.requests import GenerationRequest, LoglikelihoodRequest

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
        around = part.before[-12:] + part.text + part.after[:12]
        for code in _faults(part):
            yield code, around


def _faults(part: Literal) -> Iterator[str]:
    left, right = part.before[-1:], part.after[:1]
    text = left + part.text + right
    if _DOUBLED.search(text):
        yield "doubled_space"
    if _LINE_END.search(left + part.text):
        yield "trailing_space"
    if right and part.text and _wants_space(part.text[-1], right):
        yield "missing_space"
    if left and _begins_section(part) and _wants_space(left, part.text[:1] or right):
        yield "glued_sections"


def _begins_section(part: Literal) -> bool:
    """Whether a text of the document is followed by another one, or by a word that begins something new."""
    return not part.text or part.text[0].isupper() or _LABEL.match(part.text) is not None


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
            elif isinstance(request, GenerationRequest) and _ends_in_space(request.context, sample.gen_prefix, prompts):
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


def _ends_in_space(context: str, gen_prefix: str, prompts: Prompts) -> bool:
    """Whether a model has to write after a space; the end of a chat is the chat template's, but for a prefix."""
    return context[-1:] in (" ", "\t") and (bool(gen_prefix) or not prompts.chat)


def _hit(code: str, where: str | None, doc_id: int, example: str, advice: str, what: str | None = None) -> Hit:
    return Hit(doc_id, code, where, what or _WHAT[code], shorten(example, 90), advice)
