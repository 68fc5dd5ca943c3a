"""Checks of few-shot examples: their layout, their answers, and where they come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os.path import commonprefix

from multiform.errors import MultiformError, shorten
from multiform.fields import Doc
from multiform.forms import Form
from multiform.forms.renderer import Renderer
from multiform.lint.findings import Finding, Hit
from multiform.lint.prompts import Prompts, Shot, literals
from multiform.requests import Completion, GenerationRequest, Instance, LoglikelihoodRequest
from multiform.scoring.filters import INVALID

#: The least number of documents from which the text that all have in common is known.
_LEAST = 5
#: The least number of characters, with a letter, of a text that makes a layout.
_LONG = 3


def shot_findings(prompts: Prompts) -> list[Finding]:
    """The findings about the few-shot examples of a form."""
    if not prompts.shots:
        return []
    return [*_layout(prompts), *_border(prompts), *_answers(prompts)]


@dataclass(frozen=True, slots=True)
class _Frame:
    """The common beginning and end of several texts, apart from white space."""

    begin: str
    end: str

    @classmethod
    def of(cls, beginnings: Sequence[str], ends: Sequence[str]) -> _Frame:
        backwards = [_one_line(end)[::-1] for end in ends]
        return cls(commonprefix(list(map(_one_line, beginnings))), commonprefix(backwards)[::-1])  # noqa: RUF071

    def lacking(self, texts: Sequence[str]) -> str | None:
        """The part of the frame that none of the texts has."""
        spaced = [_one_line(text) for text in texts]
        if _is_layout(self.end) and not any(self.end.strip() in text for text in spaced):
            return self.end
        if _is_layout(self.begin) and not any(text.startswith(self.begin.strip()) for text in spaced):
            return self.begin
        return None


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
    for frame, others, (whose, other) in (
        (_question_frame(prompts, questions), solved, ("questions", "examples")),
        (_text_frame(examples), questions, ("examples", "questions")),
    ):
        missing = frame.lacking(others)
        if missing is not None:
            problem = f"all {whose} have {shorten(missing[-40:], 60)}, and none of the {other} has it"
            yield _finding(prompts, problem, f"an example: {shorten(examples[0][-60:], 90)}")
            return


def _question_frame(prompts: Prompts, questions: Sequence[str]) -> _Frame:
    """The text of the template around the questions, or what all have in common if that is not known."""
    frames = [list(literals(probe.question)) for probe in prompts.probes if probe.question is not None]
    if len(frames) < len(questions):
        return _text_frame(questions)
    return _Frame.of([first.text for first, *_ in frames], [last.text for *_, last in frames])


def _text_frame(texts: Sequence[str]) -> _Frame:
    distinct = list(dict.fromkeys(texts))
    return _Frame.of(distinct, distinct) if len(distinct) >= _LEAST else _Frame("", "")


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
        yield _finding(prompts, problem, f"an example: {shorten(example, 60)}", "target_delimiter")


def _gap(before: str, after: str) -> str:
    return before[len(before.rstrip()) :] + after[: len(after) - len(after.lstrip())]


def _one_of(gaps: set[str]) -> str:
    gap = min(gaps)
    return shorten(gap, 20) if gap else "nothing"


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
        example = f"an example: {shorten(prompts.shots[0].answer.content[-60:], 90)}"
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
