"""Checks of answers: whether the prompt has them, and whether a model can write them to their end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from multiform.errors import shorten
from multiform.fields import Doc
from multiform.formats.infer import about_choices
from multiform.forms import Sample
from multiform.lint.documents import columns
from multiform.lint.finding import Finding, Hit
from multiform.lint.marks import values
from multiform.lint.prompts import Probe, Prompts

#: A text that no document has.
_SENTINEL = "\ue002answer\ue002"


def answer_hits(prompts: Prompts) -> Iterator[Hit]:
    """Answers in their own prompts, and stop strings in answers or questions."""
    yield from _visible(prompts)
    if prompts.form.output_type == "generate_until":
        yield from _stops(prompts)


def _visible(prompts: Prompts) -> Iterator[Hit]:
    """Prompts that change with the answer alone, or that end in the answer."""
    form = prompts.form
    if form.renderer.several_inputs:  # the prompts of a document are its choices
        return
    names = _answer_columns(prompts)
    golds = {sample.doc_id: _gold_text(sample) for sample in prompts.samples}
    for probe in prompts.probes:
        question = prompts.questions[probe.doc_id].rstrip()
        ends = not prompts.shows_choices and _ends_in(probe, question, golds[probe.doc_id].strip())
        if ends or (names and _changes_with_answer(prompts, probe, names)):
            yield Hit(
                doc_id=probe.doc_id,
                code="answer_in_prompt",
                where=form.where("doc_to_text"),
                what="the prompt has its answer",
                hint="remove the answer's column from doc_to_text",
                example=shorten(question[-60:], 90),
            )


def _ends_in(probe: Probe, question: str, gold: str) -> bool:
    """Whether the question ends in a text of the document that is the answer, and not in a sentence with it."""
    if len(gold) < 2 or probe.question is None or not question.endswith(gold):
        return False
    return values(probe.question)[-1:] == [gold]


def _gold_text(sample: Sample) -> str:
    if sample.choices:
        return sample.choices[sample.gold[0]] if sample.gold and sample.gold[0] < len(sample.choices) else ""
    return str(sample.references[0]) if sample.references else ""


def _answer_columns(prompts: Prompts) -> list[str]:
    """The columns that only the answer reads, not the choices."""
    mapping = prompts.form.mapping
    answer = columns(mapping.answer) if mapping.answer is not None else None
    choice_columns = columns(mapping.choices) if mapping.choices is not None else frozenset()
    return [] if answer is None or choice_columns is None else sorted(answer - choice_columns)


def _changes_with_answer(prompts: Prompts, probe: Probe, names: list[str]) -> bool:
    """Whether the question is another one for another answer, and differs in nothing but the answer.

    Among choices the other answer is that of another document. Without choices it is a text that stands for itself,
    so that a question which is computed from the same column, such as a sentence without its last word, is none.
    """
    question, answer = _question(prompts, probe.doc), {name: probe.doc.get(name) for name in names}
    if question is None:
        return False
    if prompts.form.mapping.choices is None:
        texts = {name: value for name, value in answer.items() if isinstance(value, str) and value.strip()}
        changed = _question(prompts, {**probe.doc, **dict.fromkeys(texts, _SENTINEL)}) or ""
        return _SENTINEL in changed and question in [changed.replace(_SENTINEL, text) for text in texts.values()]
    other_answers = ({name: candidate.doc.get(name) for name in names} for candidate in prompts.probes)
    replacement = next((values for values in other_answers if values != answer), answer)
    return _question(prompts, {**probe.doc, **replacement}) not in (None, question)


def _question(prompts: Prompts, doc: Doc) -> str | None:
    try:
        return str(prompts.form.renderer.fields(doc).question)
    except Exception:  # noqa: BLE001  (a task's own code may raise anything about a changed document)
        return None


def _stops(prompts: Prompts) -> Iterator[Hit]:
    """Stop strings in what a model is to write, and, but for white space, in the texts of questions."""
    form = prompts.form
    stops = [stop for stop in form.generation_kwargs.get("until") or () if isinstance(stop, str)]
    place = form.where("generation_kwargs", "until")
    hint = "choose a stop string that only the layout has"
    compared = form.compares and not form.unsafe_code  # the reference of code may be its tests
    for sample in prompts.samples if compared else ():
        answers = [str(text).strip() for text in sample.references]
        stop, text = next(((stop, text) for stop in stops for text in answers if _cuts(stop, text)), ("", ""))
        if stop:
            finding, shown = f"the stop string {shorten(stop, 30)} is in the answer", _around(text, stop)
            yield Hit(doc_id=sample.doc_id, code="stop_in_answer", where=place, what=finding, hint=hint, example=shown)
    for probe in prompts.probes:
        texts = [] if probe.question is None else values(probe.question)
        stop, text = next(((stop, text) for stop in stops if stop.strip() for text in texts if stop in text), ("", ""))
        if stop:
            finding, shown = f"the stop string {shorten(stop, 30)} is in the text of the question", _around(text, stop)
            yield Hit(doc_id=probe.doc_id, code="stop_in_prompt", where=place, what=finding, hint=hint, example=shown)


def _cuts(stop: str, text: str) -> bool:
    """Whether a stop string cuts a text before its end; one at the very end is there to end it."""
    return bool(stop in text and text.partition(stop)[2].strip())


def _around(text: str, part: str) -> str:
    at = text.index(part)
    return shorten(text[max(0, at - 30) : at + 30], 80)


def stop_findings(prompts: Prompts) -> list[Finding]:
    """Stop strings in the answers of few-shot examples: a model that follows them is cut."""
    form = prompts.form
    if form.output_type != "generate_until":
        return []
    stops = [stop for stop in form.generation_kwargs.get("until") or () if isinstance(stop, str)]
    for shot in prompts.shots:
        written = shot.answer.content.rstrip() if prompts.chat else shot.question.after + shot.answer.content.rstrip()
        written = written.lstrip() if prompts.samples and prompts.samples[0].gen_prefix else written
        stop = next((stop for stop in stops if _cuts(stop, written)), None)
        if stop is not None:
            return [
                Finding(
                    code="stop_in_answer",
                    task=form.task_name,
                    form=form.name,
                    where=form.where("generation_kwargs", "until"),
                    what=f"the stop string {shorten(stop, 30)} is in the answer of a few-shot example",
                    example=shorten(written[:80], 100),
                    hint="choose a stop string that only the layout has",
                )
            ]
    return []


def description_findings(prompts: Prompts) -> list[Finding]:
    """A description or an instruction that speaks of choices, where prompts show none."""
    form = prompts.form
    if prompts.shows_choices or not prompts.probes:
        return []
    system = [message.content for message in prompts.probes[0].turns if message.role == "system"]
    texts: Mapping[str, str | None] = {"description": "".join(system)}
    if form.format is not None:
        names = ("instruction", "answer_instruction", "answer_prompt")
        texts = {**texts, **{name: getattr(form.format, name) for name in names}}
    for key, text in texts.items():
        if text and about_choices(text):
            place = form.where(key) if key == "description" else form.where_format(key)
            return [
                Finding(
                    code="description_about_choices",
                    task=form.task_name,
                    form=prompts.form.name,
                    where=place,
                    what="it speaks of choices, and the prompt shows none",
                    example=shorten(text.strip()[:120], 130),
                    hint="rewrite it for a prompt without choices",
                )
            ]
    return []
