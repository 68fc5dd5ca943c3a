"""Steps from one form of a task to another: one change at a time, each of which is a form that can be run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from multiform.errors import MultiformError, UsageError
from multiform.formats.base import FormatConfig
from multiform.formats.variation import RUN_AXES
from multiform.forms.form import Form
from multiform.forms.task import Task
from multiform.tasks import TaskConfig
from multiform.tasks.resolve import apply_overrides
from multiform.tasks.source import StatedKeys

#: Keys that say which form of a task is meant, in place of which the parts of a form have its format.
_SELECTION = ("task", "formats", "variations", "_formats_selection", "_qualified_name", "protocol", "known_errors")
_DOCUMENTS = (
    *("dataset_path", "dataset_name", "dataset_kwargs", "training_split", "validation_split", "test_split"),
    *("rename_columns", "drop_docs", "draw_docs", "process_docs", "custom_dataset"),
)
_EXAMPLES = ("fewshot_split", "fewshot_config")
_LAYOUT = ("doc_to_text", "doc_to_context", "target_delimiter", "fewshot_delimiter", "gen_prefix")
_EXTRACTION = ("filter_list", "scorer", "process_results")
_SCORING = ("output_type", "doc_to_choice", "doc_to_target", "generation_kwargs", "metric_list", *_EXTRACTION,
            "repeats", "multiple_inputs", "unsafe_code")  # fmt: skip
#: Fields of a format that say what is scored and how.
_SCORED_FIELDS = ("scored", "answer_as", "scorer", "metric_list", "generation_kwargs", "fewshot_answer", "variations")


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
        keys |= {"task": task, "_qualified_name": name, "_formats_selection": f"[{axes}]" if axes else None}
        if self.format is not None:
            keys |= {"formats": {"step": self.format}, "_formats_selection": f"step[{axes}]" if axes else "step"}
        return TaskConfig.from_stated(replace(self.stated, data=keys))

    def take(self, other: _Parts, *names: str) -> _Parts:
        """The parts with these keys as the other ones have them."""
        rest = {key: value for key, value in self.keys.items() if key not in names}
        return replace(self, keys={**rest, **{key: other.keys[key] for key in names if key in other.keys}})

    def take_fields(self, other: FormatConfig, *names: str) -> _Parts:
        """The parts with these fields of the format as another one has them."""
        assert self.format is not None
        return replace(self, format=replace(self.format, **{name: getattr(other, name) for name in names}))


_Change = tuple[str, Callable[[_Parts], _Parts]]


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
    for what, change in _changes(start, end, first.config, second.config):
        changed = change(parts)
        if changed == parts:
            continue
        parts = changed
        names.append(what)
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

    def keys(*names: str) -> Callable[[_Parts], _Parts]:
        return lambda parts: parts.take(end, *names)

    documents: _Change = ("documents", keys(*_DOCUMENTS))
    if end.keys.get("drop_docs") is not None:  # other documents might not fit the second form
        yield documents
    yield "few-shot examples", keys(*_EXAMPLES)
    yield "number of few-shot examples", keys("num_fewshot")
    yield "description", keys("description", "keep_description")
    if start.format is not None and end.format is not None:
        yield from _format_changes(start.format, end.format, end)
    elif start.format is None and end.format is None:
        yield "question and layout", keys("doc_to_text", "doc_to_context")
        yield "delimiters", keys("target_delimiter", "fewshot_delimiter")
        yield "beginning of the answer", keys("gen_prefix")
        if first.output_type == second.output_type:
            yield "answers", keys("doc_to_choice", "doc_to_target")
            yield "generation", keys("generation_kwargs", "repeats")
            yield "extraction", keys(*_EXTRACTION)
            yield "metric", keys("metric_list")
        yield "what is scored", keys(*_SCORING)
    elif start.format is None:
        yield from _into_format(second)
    else:
        yield from _out_of_format(first, end)
    yield "order of choices or draw of examples", lambda parts: replace(parts, axes=end.axes)
    if end.keys.get("drop_docs") is None:
        yield documents
    yield "everything else", lambda _: end


def _format_changes(start: FormatConfig, end: FormatConfig, parts: _Parts) -> Iterator[_Change]:
    """From format to format: the task's fields, each field of the layout, and what is scored."""
    yield "fields of the task", lambda now: now.take(parts, "doc_to_text", "doc_to_context", *_SCORING[1:3])
    if (start.scored, end.scored) == ("labels", "texts"):  # while there still are labels
        yield "what is scored", lambda now: now.take_fields(end, "scored")
    shared = {f.name for f in fields(start)} & {f.name for f in fields(end)}
    for name in (f.name for f in fields(end) if f.name in shared and f.name not in _SCORED_FIELDS):
        yield name.replace("_", " "), lambda now, name=name: now.take_fields(end, name)  # type: ignore[misc]
    if start.scored == end.scored and type(start) is type(end):
        yield (
            "generation",
            lambda now: now.take(parts, "generation_kwargs", "repeats").take_fields(end, "generation_kwargs"),
        )
        yield "extraction", lambda now: now.take(parts, *_EXTRACTION).take_fields(end, "scorer", "answer_as")
        yield "metric", lambda now: now.take(parts, "metric_list").take_fields(end, "metric_list")
    what = "metrics and extraction" if start.scored == "labels" and end.scored == "texts" else "what is scored"
    yield what, lambda now: replace(now.take(parts, *_SCORING), format=end)


def _into_format(second: TaskConfig) -> Iterator[_Change]:
    """From a finished prompt to a format: first the layout of the format, then what it scores.

    An instruction stands before all examples, which a finished prompt has no place for: then both are one step.
    """
    assert second.format is not None
    if second.format.instruction is None:
        yield "question and layout", lambda now: _with_layout(now, second)
    end = _Parts.of(Form(second))
    yield "what is scored", lambda now: replace(now.take(end, *_LAYOUT, *_SCORING), format=end.format)


def _out_of_format(first: TaskConfig, end: _Parts) -> Iterator[_Change]:
    """From a format to a finished prompt: first what that scores, then its layout."""
    assert first.format is not None
    if first.format.instruction is None:
        yield (
            "what is scored",
            lambda now: replace(_with_layout(now.take(end, *_SCORING), first), format=None),
        )
        yield "question and layout", lambda now: now.take(end, *_LAYOUT)
    else:
        yield (
            "what is scored, question and layout",
            lambda now: replace(now.take(end, *_LAYOUT, *_SCORING), format=None),
        )


def _with_layout(parts: _Parts, config: TaskConfig) -> _Parts:
    """The parts with the templates of a configuration's prompt, compiled from its format."""
    layout = {name: getattr(config, name) for name in _LAYOUT if name != "doc_to_context"}
    return replace(parts, keys={**parts.keys, **layout, "doc_to_context": None})
