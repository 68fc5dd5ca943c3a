"""Checks of choices and answers.

Choices that cannot be scored, that give themselves away or that speak of other choices; answers that the prompt
contains, or that a model cannot write to their end.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice

from multiform.errors import DataError, MultiformError, excerpt, quantity
from multiform.fields import Doc
from multiform.formats.infer.words import about_choices
from multiform.forms import Form, Sample
from multiform.lint.documents import columns
from multiform.lint.findings import Finding, Hit
from multiform.lint.prompts import Probe, Prompts, are_labels, values

#: A pattern is reported if chance alone gives it once in ten thousand tasks, in this many documents or more.
_P_VALUE = 1e-4
_LEAST = 30
#: How far above chance choosing by length has to be, and what share of the way from chance to certainty the most
#: frequent position, or of choices that all documents share the most frequent class, has to go.
_LENGTH_LIFT = 0.15
_POSITION_SKEW = 0.15
_CLASS_SKEW = 0.6


def gold_hits(prompts: Prompts) -> Iterator[Hit]:
    """Documents with more choices than labels, or whose answer is none of their choices."""
    problems = {sample.doc_id: sample.problem for sample in prompts.samples if sample.problem is not None}
    for doc_id, error in {**problems, **prompts.failures}.items():
        code = "gold_not_a_choice" if doc_id in problems else _cause(prompts.form, prompts.docs[doc_id])
        if code is None:
            raise error
        key, what = "doc_to_target", "the answer is none of the choices"
        if code == "too_few_labels":
            key, what = "formats", "there are more choices than labels"
        yield Hit(doc_id, code, prompts.form.where(key), what, error.what, error.hint)


def _cause(form: Form, doc: Doc) -> str | None:
    """Why a document cannot be rendered; None for a reason that is none of these."""
    format = form.format
    try:
        fields = form.renderer.fields(doc)
        choices = fields.choices if format is None else fields.raw_choices
    except MultiformError:
        return None
    if choices is None:
        return None
    if format is not None and isinstance(format.choice_labels, tuple) and len(choices) > len(format.choice_labels):
        return "too_few_labels"
    try:
        _ = fields.target if format is not None else form.renderer.gold(doc)
    except DataError:
        return "gold_not_a_choice"
    return None


def _single_gold(prompts: Prompts) -> list[Sample]:
    known = prompts.choice_texts
    return [sample for sample in prompts.samples if sample.doc_id in known and len(sample.gold) == 1]


def length_findings(prompts: Prompts) -> Iterator[Finding]:
    """Whether the longest or the shortest choice is right far more often than chance."""
    if prompts.shared_choices:  # yes and no have their lengths whatever the question
        return
    form = prompts.form
    for name, extreme in (("longest", max), ("shortest", min)):
        right, chances = 0, []
        example = ""
        for sample in _single_gold(prompts):
            texts = prompts.choice_texts[sample.doc_id]
            lengths = [len(text.strip()) for text in texts]
            if lengths.count(extreme(lengths)) == 1 and sample.gold[0] < len(texts):
                chances.append(1 / len(texts))
                if lengths.index(extreme(lengths)) == sample.gold[0]:
                    right += 1
                    example = example or f"doc {sample.doc_id}: {excerpt(texts[sample.gold[0]], 60)}"
        chance = sum(chances) / len(chances) if chances else 1.0
        if len(chances) < _LEAST or right / len(chances) < chance + _LENGTH_LIFT:
            continue
        from scipy.stats import binomtest  # here, because it takes a moment to import

        # The test with the mean chance errs on the safe side.
        if binomtest(right, len(chances), chance, alternative="greater").pvalue < _P_VALUE:
            share = f"{right / len(chances):.0%}; chance is {chance:.0%}"
            what = f"the {name} choice is right in {right} of {len(chances)} documents ({share})"
            place = form.where("doc_to_choice")
            yield Finding.of_form(form, "length_gives_answer_away", place, what, example=example, docs=right)


def position_findings(prompts: Prompts) -> Iterator[Finding]:
    """Whether one position among the choices is right far more often than chance."""
    samples = _single_gold(prompts)
    if not samples or prompts.form.renderer.several_inputs:
        return
    classes = bool(prompts.shared_choices) and not are_labels(prompts.shared_choices)
    if not classes and not prompts.shows_choices:
        return  # the model does not see an order
    numbers = {sample.doc_id: prompts.positions(sample) for sample in samples}
    number = Counter(numbers.values()).most_common(1)[0][0]
    golds = [sample.gold[0] for sample in samples if numbers[sample.doc_id] == number > sample.gold[0]]
    if len(golds) < _LEAST or number < 2:
        return
    counts = [golds.count(index) for index in range(number)]
    most = max(counts)
    position = counts.index(most)
    skew = (most / len(golds) - 1 / number) / (1 - 1 / number)
    if skew < (_CLASS_SKEW if classes else _POSITION_SKEW):
        return
    from scipy.stats import chisquare

    if chisquare(counts).pvalue >= _P_VALUE:
        return
    form = prompts.form
    name = excerpt(prompts.shared_choices[position], 30) if classes else f"{position + 1} of {number}"
    share = f"{most / len(golds):.0%}; chance is {1 / number:.0%}"
    what = f"choice {name} is right in {most} of {len(golds)} documents ({share})"
    example = f"right: {', '.join(map(str, counts))}"
    yield Finding.of_form(form, "skewed_gold", form.where("doc_to_target"), what, example=example, docs=most)


_PLACE = re.compile(
    r"\b(?:all|any|both|each|either|most|neither|none|one|some|two)\s+(?:of\s+)?(?:the\s+|these\s+)?(?:\w+\s+)?"
    r"(?:above|below|preceding|previous|foregoing)\b",
    re.IGNORECASE,
)
_ENDING = r"(?:\s+(?:only|alone|together|(?:are|is) (?:both )?(?:correct|true|right)))?"
_LABELS = re.compile(
    rf"(?i:both|either|neither|only)?\s*\(?[A-H]\)?(?:\s*(?:[&/]|,?\s*(?i:and|or|nor)\b|,)\s*\(?[A-H]\)?)+{_ENDING}\.?"
    rf"|(?i:only\s+|option\s+|choice\s+|answer\s+)\(?[A-H]\)?{_ENDING}\.?"
)


def refers(choice: str, *, by_place: bool) -> bool:
    """Whether a choice speaks of others by their labels or, with `by_place`, by where they stand.

    >>> [refers(text, by_place=True) for text in ("All of the above", "Both A and B", "(a) vitamin A", "A and C only.")]
    [True, True, False, True]
    >>> refers("None of the above", by_place=False)
    False
    """
    by_label = _LABELS.fullmatch(choice.strip()) is not None
    return by_label or (by_place and _PLACE.search(choice) is not None)


class ReferenceChecks:
    """Whether choices that speak of others are moved or relabelled by a form, whose samples come one by one."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self._by_place = form.config.choice_order is not None
        relabelled = form.format is not None and form.format.choice_labels not in (None, "letters")
        self._is_needed = self._by_place or ("labels" in form.config.axes and relabelled)
        self._hits: list[tuple[int, str]] = []

    def see(self, sample: Sample) -> None:
        texts = (sample.texts or sample.choices) if self._is_needed else ()
        referring = (text for text in texts if refers(text, by_place=self._by_place))
        self._hits += [(sample.doc_id, text) for text in islice(referring, 1)]

    def findings(self) -> list[Finding]:
        """The findings about the samples so far."""
        if not self._hits:
            return []
        doc_id, text = self._hits[0]
        what = "choices speak of other choices, which the variation moves or gives other labels"
        example = f"doc {doc_id}: {excerpt(text, 60)}; {quantity(len(self._hits), 'document')}"
        return [Finding.of_task(self.form, "choices_refer", self.form.where("doc_to_choice"), what, example=example)]


#: A text that no document has.
_SENTINEL = "\ue002answer\ue002"


def visible_answer_hits(prompts: Prompts) -> Iterator[Hit]:
    """Prompts that change with the answer alone, or that end in the answer."""
    form = prompts.form
    if form.renderer.several_inputs:  # the prompts of a document are its choices
        return
    # The columns that only the answer reads, not the choices.
    answer, read_by_choices = columns(form.config.mapping.answer), columns(form.config.mapping.choices)
    names = [] if answer is None or read_by_choices is None else sorted(answer - read_by_choices)
    golds = {sample.doc_id: _gold_text(sample).strip() for sample in prompts.samples}
    for probe in prompts.probes:
        question, gold = prompts.questions[probe.doc_id].rstrip(), golds[probe.doc_id]
        # A text of the document that is the answer, and not a sentence with it.
        is_last = probe.question is not None and values(probe.question)[-1:] == [gold]
        ends = not prompts.shows_choices and len(gold) > 1 and question.endswith(gold) and is_last
        if ends or (names and _changes_with_answer(prompts, probe, names)):
            place, example = form.where("doc_to_text"), excerpt(question[-60:], 90)
            yield Hit(probe.doc_id, "answer_in_prompt", place, "the prompt has its answer", example)


def _gold_text(sample: Sample) -> str:
    if sample.choices:
        return sample.choices[sample.gold[0]] if sample.gold and sample.gold[0] < len(sample.choices) else ""
    return str(sample.references[0]) if sample.references else ""


def _changes_with_answer(prompts: Prompts, probe: Probe, names: list[str]) -> bool:
    """Whether the question is another one for another answer, and differs in nothing but the answer.

    Among choices the other answer is that of another document. Without choices it is a text that stands for itself,
    so that a question which is computed from the same column, such as a sentence without its last word, is none.
    """
    question, answer = _question(prompts, probe.doc), {name: probe.doc.get(name) for name in names}
    if question is None:
        return False
    if prompts.form.config.mapping.choices is None:
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


_UNTIL = ("generation_kwargs", "until")


def _stop_strings(form: Form) -> list[str]:
    return [stop for stop in form.generation_kwargs.get("until") or () if isinstance(stop, str)]


def stop_hits(prompts: Prompts) -> Iterator[Hit]:
    """Stop strings in what a model is to write, and, but for white space, in the texts of questions."""
    form = prompts.form
    if form.output_type != "generate_until":
        return
    stops, place = _stop_strings(form), form.where(*_UNTIL)
    compared = form.compares and not form.config.unsafe_code  # the reference of code may be its tests
    samples = prompts.samples if compared else ()
    answers = {sample.doc_id: [str(text).strip() for text in sample.references] for sample in samples}
    questions = {probe.doc_id: values(probe.question or "") for probe in prompts.probes}
    for code, part, texts_by_doc, spoils in (
        ("stop_in_answer", "the answer", answers, _cuts),
        ("stop_in_prompt", "the text of the question", questions, _occurs),
    ):
        for doc_id, texts in texts_by_doc.items():
            stop, text = next(((stop, text) for stop in stops for text in texts if spoils(stop, text)), ("", ""))
            if stop:
                at, what = text.index(stop), f"the stop string {excerpt(stop, 30)} is in {part}"
                yield Hit(doc_id, code, place, what, excerpt(text[max(0, at - 30) : at + 30], 80))


def _occurs(stop: str, text: str) -> bool:
    return bool(stop.strip() and stop in text)


def _cuts(stop: str, text: str) -> bool:
    """Whether a stop string cuts a text before its end; one at the very end is there to end it."""
    return bool(stop in text and text.partition(stop)[2].strip())


def stop_findings(prompts: Prompts) -> list[Finding]:
    """Stop strings in the answers of few-shot examples: a model that follows them is cut."""
    form = prompts.form
    if form.output_type != "generate_until":
        return []
    stops = _stop_strings(form)
    for shot in prompts.shots:
        written = shot.answer.content.rstrip() if prompts.chat else shot.question.after + shot.answer.content.rstrip()
        written = written.lstrip() if prompts.samples and prompts.samples[0].gen_prefix else written
        stop = next((stop for stop in stops if _cuts(stop, written)), None)
        if stop is not None:
            what = f"the stop string {excerpt(stop, 30)} is in the answer of a few-shot example"
            example = excerpt(written[:80], 100)
            return [Finding.of_form(form, "stop_in_answer", form.where(*_UNTIL), what, example=example)]
    return []


def description_findings(prompts: Prompts) -> list[Finding]:
    """A description or an instruction that speaks of choices, although the prompts show none."""
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
            place = form.where(key) if key == "description" else form.where(*form.config.format_key(key))
            what, example = "it speaks of choices, and the prompt shows none", excerpt(text.strip()[:120], 130)
            return [Finding.of_form(form, "description_about_choices", place, what, example=example)]
    return []
