"""Steps from one form of a task to another: one change at a time, each of which is a form that can be run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from multiform.errors import MultiformError, UsageError
from multiform.formats.base import FormatConfig
from multiform.formats.variation import RUN_AXES, SCORING_FIELDS
from multiform.forms.form import Form
from multiform.forms.task import Task
from multiform.tasks.config import TaskConfig
from multiform.tasks.keys import StatedKeys
from multiform.tasks.resolve import apply_overrides

#: Keys that say which form of a task is meant, in place of which the parts of a form have its format.
_SELECTION = ("task", "formats", "variations", "_formats_selection", "_qualified_name", "protocol", "known_errors")
_DOCUMENTS = (
    *("dataset_path", "dataset_name", "dataset_kwargs", "training_split", "validation_split", "test_split"),
    *("rename_columns", "unfold_columns", "drop_docs", "draw_docs", "process_docs", "custom_dataset"),
)
_LAYOUT = ("doc_to_text", "doc_to_context", "target_delimiter", "fewshot_delimiter", "gen_prefix")
_EXTRACTION = ("filter_list", "scorer", "process_results")
_SCORING = ("output_type", "doc_to_choice", "doc_to_target", "generation_kwargs", "metric_list", *_EXTRACTION,
            "repeats", "multiple_inputs", "unsafe_code")  # fmt: skip


@dataclass(frozen=True, slots=True)
class ChangeStep:
    """One change on the way from one form to another, and the form that has it and all changes before."""

    what: str
    form: Form


@dataclass(frozen=True, slots=True)
class _Parts:
    """A form taken apart: the keys of its task, its format, and the order and draw that its label names."""

    stated: StatedKeys = field(compare=False)
    keys: Mapping[str, Any]
    format: FormatConfig | None
    axes: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, form: Form) -> _Parts:
        config = form.config
        for key in ("template", "use_prompt"):
            if getattr(config, key) is not None:
                hint = "name a format or protocol after the @"
                raise UsageError(f"a form of '{key}' cannot be changed step by step", where=form.name, hint=hint)
        _, stated = apply_overrides(config.stated, config.where)
        keys = {key: value for key, value in stated.data.items() if key not in _SELECTION}
        if config.recovered is not None:
            mapping = config.recovered.mapping
            keys |= {"doc_to_text": mapping.question, "doc_to_context": mapping.context}
            keys |= {"doc_to_choice": mapping.choices, "doc_to_target": mapping.answer, "output_type": None}
        axes = {name: value for name, value in config.axes.items() if name in RUN_AXES}
        return cls(config.stated, keys, config.format, axes)

    def config(self, task: str, name: str) -> TaskConfig:
        """The configuration that the parts make, under this name."""
        axes = ",".join(f"{axis}={value}" for axis, value in self.axes.items())
        keys = {key: value for key, value in self.keys.items() if value is not None or key != "output_type"}
        label = "" if self.format is None else "step"
        keys |= {} if self.format is None else {"formats": {label: self.format}}
        selection = f"{label}[{axes}]" if axes else label or None
        keys |= {"task": task, "_qualified_name": name, "_formats_selection": selection}
        return TaskConfig.from_stated(replace(self.stated, data=keys))


@dataclass(frozen=True, slots=True)
class _Change:
    """A change: some keys, fields of the format, or whole parts become those of the source."""

    what: str
    source: _Parts
    keys: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()

    def apply(self, now: _Parts) -> _Parts:
        """The parts with the change."""
        rest = {key: value for key, value in now.keys.items() if key not in self.keys}
        taken = {key: self.source.keys[key] for key in self.keys if key in self.source.keys}
        layout = {name: getattr(self.source.format, name) for name in self.fields}
        format = now.format if now.format is None else replace(now.format, **layout)
        whole = {name: getattr(self.source, name) for name in self.parts}
        return replace(now, **{"keys": {**rest, **taken}, "format": format, **whole})


def steps_between(first: Form, second: Form) -> list[ChangeStep]:
    """The changes that turn the first form into the second, one at a time; the last step is the second form.

    A change that makes no form by itself, such as labels that are scored and not shown, is one step with the next one.
    """
    if first.task_name != second.task_name:
        message = f"'{first.name}' and '{second.name}' are not of one task, so that no document has both"
        raise UsageError(message, where="--run", hint="compare two forms of one task")
    start, end = _Parts.of(first), _Parts.of(second)
    steps: list[ChangeStep] = []
    parts, names = start, list[str]()
    for change in _changes(start, end, first.config, second.config):
        changed = change.apply(parts)
        if changed == parts:
            continue
        parts = changed
        names.append(change.what)
        name = f"{first.name} + {len(steps) + 1}. {' and '.join(names)}"
        if changed == end:
            break
        form = _form(parts, first, name)
        if form is not None:
            steps.append(ChangeStep(" and ".join(names), form))
            names = []
    return [*steps, ChangeStep(" and ".join(names) or "names", second)] if names or first.name != second.name else steps


def _form(parts: _Parts, first: Form, name: str) -> Form | None:
    """The form that parts make, where it can render its first document."""
    try:
        form = Task.from_config(parts.config(first.task_name, name), dataset_mirror=first.mirror).form
        form = form.under(first.settings)
        form.sample(0, form.eval_docs[0])
    except MultiformError:
        return None
    return form


def _changes(start: _Parts, end: _Parts, first: TaskConfig, second: TaskConfig) -> Iterator[_Change]:
    """All changes in the order in which they are made; the last one leaves nothing out."""
    documents = _Change("documents", end, _DOCUMENTS)
    if end.keys.get("drop_docs") is not None:  # other documents might not fit the second form
        yield documents
    yield _Change("few-shot examples", end, ("fewshot_split", "fewshot_config"))
    yield _Change("number of few-shot examples", end, ("num_fewshot",))
    yield _Change("description", end, ("description", "keep_description"))
    if start.format is not None and end.format is not None:
        yield from _format_changes(start.format, end.format, end)
    elif start.format is None and end.format is None:
        yield _Change("question and layout", end, ("doc_to_text", "doc_to_context"))
        yield _Change("delimiters", end, ("target_delimiter", "fewshot_delimiter"))
        yield _Change("beginning of the answer", end, ("gen_prefix",))
        if first.output_type == second.output_type:
            yield _Change("answers", end, ("doc_to_choice", "doc_to_target"))
            yield _Change("generation", end, ("generation_kwargs", "repeats"))
            yield _Change("extraction", end, _EXTRACTION)
            yield _Change("metric", end, ("metric_list",))
        yield _Change("what is scored", end, _SCORING)
    else:  # the layout of the format changes apart from what is scored
        formatted = first if end.format is None else second
        assert formatted.format is not None
        # An instruction stands before all examples, which a finished prompt has no place for: then both are one step.
        apart, what = formatted.format.instruction is None, "what is scored"
        layout = {name: getattr(formatted, name) for name in _LAYOUT if name != "doc_to_context"}
        laid_out = replace(end, keys={**end.keys, **layout, "doc_to_context": None})
        if end.format is not None and apart:
            yield _Change("question and layout", laid_out, _LAYOUT)
        elif apart:
            yield _Change(what, laid_out, (*_SCORING, *_LAYOUT), parts=("format",))
            what = "question and layout"
        elif end.format is None:
            what = "what is scored, question and layout"
        yield _Change(what, end, (*_SCORING, *_LAYOUT), parts=("format",))
    yield _Change("order of choices or draw of examples", end, parts=("axes",))
    if end.keys.get("drop_docs") is None:
        yield documents
    yield _Change("everything else", end, parts=("keys", "format", "axes"))


def _format_changes(start: FormatConfig, end: FormatConfig, parts: _Parts) -> Iterator[_Change]:
    """From format to format: the task's fields, each field of the layout, and what is scored."""
    yield _Change("fields of the task", parts, ("doc_to_text", "doc_to_context", "doc_to_choice", "doc_to_target"))
    labels_to_texts = (start.scored, end.scored) == ("labels", "texts")
    if labels_to_texts:  # while there still are labels
        yield _Change("what is scored", parts, fields=("scored",))
    layout = {f.name for f in fields(start)} - {*SCORING_FIELDS, "fewshot_answer"}
    for name in (f.name for f in fields(end) if f.name in layout):
        yield _Change(name.replace("_", " "), parts, fields=(name,))
    if start.scored == end.scored and type(start) is type(end):
        yield _Change("generation", parts, ("generation_kwargs", "repeats"), ("generation_kwargs",))
        yield _Change("extraction", parts, _EXTRACTION, ("scorer", "answer_as"))
        yield _Change("metric", parts, ("metric_list",), ("metric_list",))
    what = "metrics and extraction" if labels_to_texts else "what is scored"
    yield _Change(what, parts, _SCORING, parts=("format",))
