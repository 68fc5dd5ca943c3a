"""Checks of answers: whether the prompt has them, and whether a model can write them to their end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from multiform.errors import shorten
from multiform.fields import Doc
from multiform.formats.infer import about_choices
from multiform.lint.documents import columns
from multiform.lint.finding import Finding, Hit
from multiform.lint.marks import mapped, values
from multiform.lint.prompts import Probe, Prompts

#: A text that no document has.
_SENTINEL = "\ue002answer\ue002"


def answer_hits(prompts: Prompts) -> Iterator[Hit]:
    """Answers in their own prompts, and stop strings in answers or questions."""
    yield from _visible(prompts)
    if prompts.task.config.output_type == "generate_until":
        yield from _stops(prompts)


def _visible(prompts: Prompts) -> Iterator[Hit]:
    """Prompts that change with the answer alone, or that end in the answer."""
    config = prompts.task.config
    names = _answer_columns(prompts)
    golds = {sample.doc_id: _gold_text(sample.choices, sample.gold, sample.references) for sample in prompts.samples}
    answers = [{name: probe.doc.get(name) for name in names} for probe in prompts.probes]
    for probe in prompts.probes:
        gold = golds.get(probe.doc_id, "").strip()
        question = prompts.questions[probe.doc_id].rstrip()
        ends = len(gold) > 1 and question.endswith(gold) and not question[: -len(gold)].strip().endswith(gold)
        shown = names and _shows_answer(prompts, probe, names, answers)
        if shown or (ends and question[-len(gold) - 1 : -len(gold)] in (" ", "\n") and _is_last_value(probe, gold)):
            yield Hit(
                doc_id=probe.doc_id,
                code="answer_in_prompt",
                where=config.where("doc_to_text"),
                what="the prompt has its answer",
                hint="remove the answer's column from doc_to_text",
                example=shorten(question[-60:], 90),
            )


def _is_last_value(probe: Probe, gold: str) -> bool:
    """Whether the question ends in a text of the document that is the answer, and not in a sentence with it."""
    return probe.question is not None and values(probe.question)[-1:] == [gold]


def _gold_text(choices: tuple[str, ...], gold: tuple[int, ...], references: tuple[Any, ...]) -> str:
    if choices:
        return choices[gold[0]] if gold and gold[0] < len(choices) else ""
    return str(references[0]) if references else ""


def _answer_columns(prompts: Prompts) -> list[str]:
    """The columns that only the answer reads, not the choices."""
    mapping = prompts.task.config.mapping
    answer = columns(mapping.answer) if mapping.answer is not None else None
    if not answer:
        return []
    others = columns(mapping.choices) if mapping.choices is not None else frozenset()
    return [] if others is None else sorted(answer - others)


def _shows_answer(prompts: Prompts, probe: Probe, names: list[str], answers: list[dict[str, Any]]) -> bool:
    """Whether another answer in the document makes another prompt, in which nothing but the answer changed."""
    question = _question(prompts, probe.doc)
    if question is None:
        return False
    texts = {name: value for name in names if isinstance(value := probe.doc.get(name), str) and value.strip()}
    if texts and prompts.task.config.mapping.choices is None:
        changed = _question(prompts, {**probe.doc, **mapped(texts, lambda _: _SENTINEL)})
        return changed is not None and any(
            changed.replace(_SENTINEL, text) == question != changed for text in texts.values()
        )
    other = next((answer for answer in answers if answer != {name: probe.doc.get(name) for name in names}), None)
    if other is None or prompts.task.config.mapping.choices is None:
        return False
    changed = _question(prompts, {**probe.doc, **other})
    return changed is not None and changed != question


def _question(prompts: Prompts, doc: Doc) -> str | None:
    fields = prompts.task.renderer.fields(doc)
    try:
        return str(fields.question)
    except Exception:  # noqa: BLE001  (a task's own code may raise anything about a changed document)
        return None


def _stops(prompts: Prompts) -> Iterator[Hit]:
    """Stop strings in what a model is to write, and, but for white space, in the texts of questions."""
    task = prompts.task
    stops = [stop for stop in task.form.generation_kwargs.get("until") or () if isinstance(stop, str)]
    place = task.config.where("generation_kwargs", "until")
    hint = "choose a stop string that only the layout has"
    compared = task.form.compares and not task.config.unsafe_code  # the reference of code may be its tests
    for sample in prompts.samples if compared else ():
        answers = [str(text).strip() for text in sample.references]
        stop, text = next(((stop, text) for stop in stops for text in answers if _cuts(stop, text)), ("", ""))
        if stop:
            what, shown = f"the stop string {shorten(stop, 30)} is in the answer", _around(text, stop)
            yield Hit(doc_id=sample.doc_id, code="stop_in_answer", where=place, what=what, hint=hint, example=shown)
    for probe in prompts.probes:
        texts = [] if probe.question is None else values(probe.question)
        stop, text = next(((stop, text) for stop in stops if stop.strip() for text in texts if stop in text), ("", ""))
        if stop:
            what, shown = f"the stop string {shorten(stop, 30)} is in the text of the question", _around(text, stop)
            yield Hit(doc_id=probe.doc_id, code="stop_in_prompt", where=place, what=what, hint=hint, example=shown)


def _cuts(stop: str, text: str) -> bool:
    """Whether a stop string cuts a text before its end; one at the very end is there to end it."""
    return bool(stop in text and text.partition(stop)[2].strip())


def _around(text: str, part: str) -> str:
    at = text.index(part)
    return shorten(text[max(0, at - 30) : at + 30], 80)


def stop_findings(prompts: Prompts) -> list[Finding]:
    """Stop strings in the answers of few-shot examples: a model that follows them is cut."""
    task, config = prompts.task, prompts.task.config
    if config.output_type != "generate_until":
        return []
    stops = [stop for stop in task.form.generation_kwargs.get("until") or () if isinstance(stop, str)]
    for shot in prompts.shots:
        written = shot.answer.content.rstrip() if prompts.chat else shot.question.after + shot.answer.content.rstrip()
        written = written.lstrip() if prompts.samples and prompts.samples[0].gen_prefix else written
        stop = next((stop for stop in stops if _cuts(stop, written)), None)
        if stop is not None:
            return [
                Finding(
                    code="stop_in_answer",
                    task=config.base_name,
                    form=task.name,
                    where=config.where("generation_kwargs", "until"),
                    what=f"the stop string {shorten(stop, 30)} is in the answer of a few-shot example",
                    example=shorten(written[:80], 100),
                    hint="choose a stop string that only the layout has",
                )
            ]
    return []


def description_findings(prompts: Prompts) -> list[Finding]:
    """A description or an instruction that speaks of choices, where prompts show none."""
    config = prompts.task.config
    if prompts.shows_choices or not prompts.probes:
        return []
    system = [message.content for message in prompts.probes[0].turns if message.role == "system"]
    texts: Mapping[str, str | None] = {"description": "".join(system)}
    if config.format is not None:
        names = ("instruction", "answer_instruction", "answer_prompt")
        texts = {**texts, **{name: getattr(config.format, name) for name in names}}
    for key, text in texts.items():
        if text and about_choices(text):
            place = config.where(key) if key == "description" else config.where(*config.format_key(key))
            return [
                Finding(
                    code="description_about_choices",
                    task=config.base_name,
                    form=prompts.task.name,
                    where=place,
                    what="it speaks of choices, and the prompt shows none",
                    example=shorten(text.strip()[:120], 130),
                    hint="rewrite it for a prompt without choices",
                )
            ]
    return []
