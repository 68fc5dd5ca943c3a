"""What two forms do differently: their prompts byte by byte, and every setting that scores depend on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import SequenceMatcher
from typing import Any, Generic, TypeVar

from multiform.errors import excerpt
from multiform.forms.form import Form
from multiform.forms.sample import Sample
from multiform.forms.task import Task
from multiform.prompts.prompt import ChatTemplate
from multiform.scoring.metrics import Metric
from multiform.tasks.keys import plain

#: A column in braces, a run of letters or digits, of line breaks or of blanks, or any other character.
_PIECES = re.compile(r"\{[\w.]+\}|\w+|\n+|[^\S\n]+|.", re.DOTALL)
#: Lines with a smaller share of common pieces are not compared word by word.
_ALIKE = 0.5
#: What is scored, in the words of a reader.
_SCORED = {"multiple_choice": "the likelihood of each choice", "generate_until": "a completion"}
#: Texts of a document that are shorter are not replaced by the name of their column: they may be anything.
_SHORTEST = 3


Part = TypeVar("Part", str, tuple[str, ...])


@dataclass(frozen=True, slots=True)
class Edit(Generic[Part]):
    """The part of a prompt from byte `start` on, or its tokens from that number on, that another one has otherwise."""

    start: int
    removed: Part
    added: Part


@dataclass(frozen=True, slots=True)
class SettingDifference:
    """A setting that two forms have different values of."""

    what: str
    first: Any
    second: Any

    def sentence(self) -> str:
        """The difference in a sentence; of a mapping, only the keys that differ."""
        first, second = self.first, self.second
        if isinstance(first, dict) and isinstance(second, dict):
            keys = [key for key in {**first, **second} if first.get(key) != second.get(key)]
            changed = [f"{key} {_short(first.get(key))} became {_short(second.get(key))}" for key in keys]
            return f"{self.what}: {'; '.join(changed)}."
        return f"{self.what}: {_short(first)} became {_short(second)}."


@dataclass(frozen=True, slots=True)
class TokenDifference:
    """How many tokens two prompts have, and which differ."""

    numbers: tuple[int, int]
    edits: tuple[Edit[tuple[str, ...]], ...]

    @classmethod
    def of(cls, first: Sequence[str], second: Sequence[str]) -> TokenDifference:
        """The difference of two lists of tokens."""
        matcher = SequenceMatcher(None, first, second, autojunk=False)
        edits = [
            Edit(start, tuple(first[start:end]), tuple(second[other_start:other_end]))
            for tag, start, end, other_start, other_end in matcher.get_opcodes()
            if tag != "equal"
        ]
        return cls((len(first), len(second)), tuple(edits))


@dataclass(frozen=True, slots=True, kw_only=True)
class FormDifference:
    """The difference of two forms on one document."""

    names: tuple[str, str]
    prompts: tuple[str, str]
    #: The edits that turn the first prompt into the second, to the byte.
    edits: tuple[Edit[str], ...]
    settings: tuple[SettingDifference, ...]
    #: The same for a reader: columns in place of what documents have in them, and without the few-shot examples if
    #: only one form has some.
    patterns: tuple[Edit[str], ...]
    #: The same token by token, if a tokenizer is at hand.
    tokens: TokenDifference | None = None

    def sentences(self) -> list[str]:
        """One sentence for each difference; edits that are the same are one."""
        counts = Counter((edit.removed, edit.added) for edit in self.patterns)
        edits = [_edit_sentence(*edit, times) for edit, times in counts.items()]
        return [*edits, *(setting.sentence() for setting in self.settings)]

    def to_dict(self) -> dict[str, Any]:
        """The difference as plain data."""
        return {
            "forms": list(self.names),
            "prompts": list(self.prompts),
            "edits": [asdict(edit) for edit in self.edits],
            "settings": [{"what": s.what, "first": plain(s.first), "second": plain(s.second)} for s in self.settings],
            "sentences": self.sentences(),
            **({} if self.tokens is None else {"tokens": asdict(self.tokens)}),
        }


def text_edits(first: str, second: str) -> list[Edit[str]]:
    """The edits that turn one text into the other; offsets are those of the first in UTF-8.

    Lines are matched first, and words only within lines that are alike: an edit is a piece of a line, or whole lines.

    >>> text_edits("A. yes", " A. yes")
    [Edit(start=0, removed='', added=' ')]
    """
    edits, offset = [], 0
    for removed, added in _differing_lines(first.splitlines(keepends=True), second.splitlines(keepends=True)):
        for piece, other in [(removed, added)] if removed == added else _differing_pieces(removed, added):
            if piece != other:
                edits.append(Edit(offset, piece, other))
            offset += len(piece.encode("utf-8", "surrogatepass"))
    return edits


def _differing_lines(lines: Sequence[str], others: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pairs of texts that make up both: equal ones, single lines in place of each other, and blocks of lines."""
    matcher = SequenceMatcher(None, lines, others, autojunk=False)
    for _, start, end, other_start, other_end in matcher.get_opcodes():
        block, other = lines[start:end], others[other_start:other_end]
        alike = [_matcher(*pair)[2].ratio() >= _ALIKE for pair in zip(block, other, strict=False)]
        if len(block) == len(other) and 2 * sum(alike) > len(block):
            yield from zip(block, other, strict=True)
        else:
            yield "".join(block), "".join(other)


def _differing_pieces(first: str, second: str) -> Iterator[tuple[str, str]]:
    """Pairs of texts that make up both: their common pieces and what differs, or the whole of both if little is."""
    pieces, others, matcher = _matcher(first, second)
    if matcher.ratio() < _ALIKE:
        yield first, second
        return
    for _, start, end, other_start, other_end in matcher.get_opcodes():
        yield "".join(pieces[start:end]), "".join(others[other_start:other_end])


def _matcher(first: str, second: str) -> tuple[list[str], list[str], SequenceMatcher[str]]:
    """The pieces of two texts, and what matches them."""
    pieces, others = _PIECES.findall(first), _PIECES.findall(second)
    return pieces, others, SequenceMatcher(None, pieces, others, autojunk=False)


@dataclass(frozen=True, slots=True)
class _Rendered:
    """A document as a form renders it, and the documents of its few-shot examples."""

    form: Form
    sample: Sample
    shots: tuple[dict[str, Any], ...]
    #: The same without description and examples.
    question: str

    @classmethod
    def of(cls, form: Form, doc_id: int, chat_template: ChatTemplate | None) -> _Rendered:
        """The document and its examples; those of all documents before are drawn first, as in a run."""
        number, shots = form.num_fewshot, list[dict[str, Any]]()
        drawing = form.under(form.settings).renderer.examples
        for index, doc in form.docs(limit=doc_id + 1):
            sample = form.sample(index, doc, chat_template)
            shots = drawing.docs(doc, number)
        bare = form.config.replace(description="", num_fewshot=0)
        alone = Task.from_config(bare, dataset_mirror=form.mirror).form.under(replace(form.settings, num_fewshot=0))
        question = alone.sample(doc_id, sample.doc, chat_template).prompt
        return cls(form, sample, tuple(shots), question)


def compare_forms(
    first: Form,
    second: Form,
    doc_id: int = 0,
    chat_template: ChatTemplate | None = None,
    tokenize: Callable[[str], list[str]] | None = None,
) -> FormDifference:
    """The difference of two forms on a document of each; with `tokenize`, also token by token."""
    rendered, other = (_Rendered.of(form, doc_id, chat_template) for form in (first, second))
    texts = (_request_text(rendered.sample), _request_text(other.sample))
    edits = text_edits(*texts)
    values, others = _settings(rendered), _settings(other)
    differing = [what for what in values if values[what] != others[what]]
    patterns = _patterns(rendered, other) if edits else []
    return FormDifference(
        names=(first.name, second.name),
        prompts=texts,
        edits=tuple(edits),
        settings=tuple(SettingDifference(what, values[what], others[what]) for what in differing),
        patterns=tuple(patterns or edits),
        tokens=None if tokenize is None else TokenDifference.of(*map(tokenize, texts)),
    )


def _request_text(sample: Sample) -> str:
    """The prompts of a document; of a task with several inputs, one after the other."""
    contexts = dict.fromkeys(str(getattr(instance.request, "context", "")) for instance in sample.instances)
    return "\n-----\n".join(contexts)


def _patterns(first: _Rendered, second: _Rendered) -> list[Edit[str]]:
    """The edits of two prompts for a reader."""
    columns = _shared_values(first.sample.doc, second.sample.doc)
    of_shots = [_shared_values(*pair) for pair in zip(first.shots, second.shots, strict=False)]
    if all(of_shots) and len(first.shots) == len(second.shots):  # the same examples, but for their answers perhaps
        texts = [one.sample.prompt for one in (first, second)]
        columns = {text: column for shared in (*of_shots, columns) for text, column in shared.items()}
    else:
        texts = [
            one.form.renderer.reader.text(one.form.config.description, one.sample.doc, "description") + one.question
            for one in (first, second)
        ]
    if columns:
        pattern = re.compile("|".join(re.escape(value) for value in sorted(columns, key=len, reverse=True)))
        texts = [pattern.sub(lambda match: columns[match[0]], text) for text in texts]
    return text_edits(*texts)


def _shared_values(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, str]:
    """The texts that both documents have, each with its column in braces."""
    others = _values(second)
    return {value: column for value, column in _values(first).items() if value in others}


def _values(value: Any, path: str = "") -> dict[str, str]:
    """The texts within a document, each with its column in braces."""
    if isinstance(value, str):
        return {value: f"{{{path}}}"} if len(value) >= _SHORTEST else {}
    if isinstance(value, Mapping):
        inner = [(item, f"{path}.{key}".strip(".")) for key, item in value.items()]
    elif isinstance(value, list | tuple):
        inner = [(item, f"{path}.{index}") for index, item in enumerate(value)]
    else:
        return {}
    return {text: column for item, key in reversed(inner) for text, column in _values(item, key).items()}


def _settings(rendered: _Rendered) -> dict[str, Any]:
    """Everything but the prompt that the scores of a form depend on, in the words of a reader."""
    form, sample = rendered.form, rendered.sample
    config, ranks = form.config, form.output_type != "generate_until"
    drop = None if config.drop_docs is None else f"without those with {config.drop_docs}"
    drawn = None if config.draw_docs is None else "{number} drawn with seed {seed}".format(**config.draw_docs)
    return {
        "protocol": config.protocol,
        "dataset": [config.dataset_path, config.dataset_name],
        "split": config.test_split or config.validation_split,
        "documents": ", ".join(part for part in (drop, drawn) if part) or "all",
        "number of few-shot examples": form.num_fewshot,
        "few-shot examples": _examples(form),
        "what is scored": _SCORED.get(form.output_type, form.output_type),
        "continuations": [str(getattr(i.request, "continuation", "")) for i in sample.instances] if ranks else None,
        "metric": ", ".join(map(_metric, form.scoring.scorers[0].metrics)),
        "extraction": None if ranks else _extraction(form),
        "generation": dict(form.generation_kwargs) if form.generates else None,
        "repeats": config.repeats,
    }


def _examples(form: Form) -> str | None:
    """Where the few-shot examples of a form come from."""
    shots = form.fewshot
    if not form.num_fewshot:
        return None
    if shots.fewshot_rows is not None:
        return f"{len(shots.fewshot_rows)} rows by {', '.join(shots.fewshot_rows[0])}"
    if shots.samples is not None and shots.split is None:
        return "those that the task lists" + (f" as {form.config.protocol}" if form.config.protocol else "")
    how = {"default": f"drawn with seed {form.fewshot_seed}", "first_n": "the first"}
    return f"{how.get(shots.sampler, shots.sampler)} of {form.fewshot_split}"


def _metric(metric: Metric) -> str:
    arguments = ", ".join(f"{key} {excerpt(value, 40)}" for key, value in metric.kwargs.items())
    return f"{metric.name} ({arguments})" if arguments else metric.name


def _extraction(form: Form) -> str:
    """The filters of a form, and its scorer, by name and with what they look for."""
    scorer: Any = form.config.scorer
    readers = [] if scorer is None else [f"scorer {scorer['type']}"]
    for pipeline in plain(form.config.filter_list):
        steps = [{**step, **(step.get("kwargs") or {})} for step in pipeline["filter"]]
        named = ", ".join(f"{step['function']} {step.get('regex_pattern', '')}".strip() for step in steps)
        readers.append(f"{pipeline['name']} ({named})")
    return ", ".join(readers) or "the whole completion"


def _edit_sentence(removed: str, added: str, times: int) -> str:
    often = "" if times == 1 else f" ({times} times)"
    if not removed:
        return f"The prompt has {_short(added)} added{often}."
    if not added:
        return f"The prompt lacks {_short(removed)}{often}."
    return f"The prompt has {_short(added)} in place of {_short(removed)}{often}."


def _short(value: Any) -> str:
    return "none" if value is None else excerpt(value, 160)
