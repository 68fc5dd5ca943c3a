"""Checks of choices and gold answers: those that cannot be scored, and those that give themselves away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from multiform.errors import DataError, MultiformError, shorten
from multiform.fields import Doc
from multiform.forms import Form, Sample
from multiform.lint.codes import Code
from multiform.lint.finding import Finding, Hit
from multiform.lint.prompts import Prompts, are_labels

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
    form = prompts.form
    for sample in prompts.samples:
        if sample.doubt is not None:
            yield _hit("gold_not_a_choice", sample.doc_id, sample.doubt, form.where("doc_to_target"))
    for doc_id, error in prompts.failures.items():
        code = _cause(form, prompts.docs[doc_id])
        if code is None:
            raise error
        place = form.where("doc_to_target" if code == "gold_not_a_choice" else "formats")
        yield _hit(code, doc_id, error, place)


def _hit(code: Code, doc_id: int, error: DataError, where: str | None) -> Hit:
    problem = {"gold_not_a_choice": "the answer is none of the choices"}.get(code, "there are more choices than labels")
    hint = error.hint or "check it"
    return Hit(doc_id=doc_id, code=code, where=where, what=problem, hint=hint, example=error.what)


def _cause(form: Form, doc: Doc) -> Code | None:
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


def choice_findings(prompts: Prompts) -> list[Finding]:
    """Patterns in lengths and positions that tell the right choice without the question."""
    return [*_lengths(prompts), *_positions(prompts)]


def _single_gold(prompts: Prompts) -> list[Sample]:
    known = prompts.choice_texts
    return [sample for sample in prompts.samples if sample.doc_id in known and len(sample.gold) == 1]


def _lengths(prompts: Prompts) -> Iterator[Finding]:
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
                    example = example or f"doc {sample.doc_id}: {shorten(texts[sample.gold[0]], 60)}"
        if len(chances) >= _LEAST and _is_biased(right, chances):
            chance = sum(chances) / len(chances)
            yield Finding(
                code="length_gives_answer_away",
                task=form.task_name,
                form=prompts.form.name,
                where=form.where("doc_to_choice"),
                what=f"the {name} choice is right in {right} of {len(chances)} documents ({right / len(chances):.0%}; "
                f"chance is {chance:.0%})",
                example=example,
                hint="rewrite choices, or report a score that is normalized by length",
                docs=right,
            )


def _is_biased(right: int, chances: list[float]) -> bool:
    """Whether the count is far above chance; the binomial test with the mean chance errs on the safe side."""
    from scipy.stats import binomtest

    chance = sum(chances) / len(chances)
    if right / len(chances) < chance + _LENGTH_LIFT:
        return False
    return bool(binomtest(right, len(chances), chance, alternative="greater").pvalue < _P_VALUE)


def _positions(prompts: Prompts) -> Iterator[Finding]:
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
    counts = Counter(golds)
    position, most = counts.most_common(1)[0]
    skew = (most / len(golds) - 1 / number) / (1 - 1 / number)
    if skew < (_CLASS_SKEW if classes else _POSITION_SKEW) or not _is_uneven(counts, number):
        return
    form = prompts.form
    name = shorten(prompts.shared_choices[position], 30) if classes else f"{position + 1} of {number}"
    share = f"{most / len(golds):.0%}; chance is {1 / number:.0%}"
    yield Finding(
        code="skewed_gold",
        task=form.task_name,
        form=prompts.form.name,
        where=form.where("doc_to_target"),
        what=f"choice {name} is right in {most} of {len(golds)} documents ({share})",
        example=f"right: {', '.join(str(counts[index]) for index in range(number))}",
        hint="report the score of always choosing it" if classes else "shuffle the choices of each document",
        docs=most,
    )


def _is_uneven(counts: Counter[int], number: int) -> bool:
    """Whether a chi-square test of equal frequencies fails."""
    from scipy.stats import chisquare

    return bool(chisquare([counts[index] for index in range(number)]).pvalue < _P_VALUE)
