"""Selecting the format of a task and its variation, from its `formats:` key and the ``@`` of the command line."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from multiform.errors import ConfigError, excerpt, nearest
from multiform.formats.base import FormatConfig, dialect_names, formats
from multiform.formats.compile import FieldMapping
from multiform.formats.localization import label_language, localize
from multiform.formats.variation import Grammar, Selected, Variation, draw_number

#: The type of an entry that has a finished prompt in place of a format.
PROMPT = "prompt"
#: Keys of a task that an entry of `formats:` may set; they replace the task's own under that entry.
TASK_KEYS = frozenset({
    "description", "keep_description", "doc_to_context", "doc_to_text", "doc_to_choice", "doc_to_target",
    "doc_to_turns", "doc_to_rationale", "doc_to_image", "output_type", "dataset_path", "dataset_name", "dataset_kwargs",
    "training_split", "validation_split", "test_split", "fewshot_split", "rename_columns", "unfold_columns",
    "drop_docs", "draw_docs", "process_docs", "num_fewshot", "fewshot_config", "filter_list", "process_results",
    "multiple_inputs", "repeats",
    "unsafe_code", "should_decontaminate", "doc_to_decontamination_query", "known_errors", "protocol",
})  # fmt: skip
#: Keys that are a format's otherwise, and that a finished prompt takes from its entry.
_PROMPT_KEYS = TASK_KEYS | {
    "gen_prefix", "target_delimiter", "fewshot_delimiter", "generation_kwargs", "metric_list", "scorer"
}  # fmt: skip

FormatSpec = str | Mapping[str, Any] | FormatConfig | None


class UnknownFormatError(ConfigError):
    """There is no format of the selected name."""


def select_format(
    spec: FormatSpec,
    selection: str | None = None,
    variations: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Selected | None:
    """The selected format; without a selection, the first one of `spec`, or None if that has none.

    `spec` is the value of `formats:`. A selection is looked up in it first, then among the registered formats, then
    in the other dialects. It may be a variation, whose axes are the built-in ones and those of `variations`, and name
    a language: ``mcqa:de``, or ``mcqa:native`` for the one that the task's `metadata` states.

    >>> select_format("mcqa", "cloze").label
    'cloze'
    >>> select_format({"short": {"type": "mcqa", "question_prefix": "Q: "}}).format.question_prefix
    'Q: '
    >>> selected = select_format("mcqa", "mcqa[wrap=(x),labels=roman,sep=colon]")
    >>> selected.label, selected.format.choice_format
    ('mcqa[labels=roman,wrap=(x)]', '({label}) {choice}')
    >>> select_format("mcqa", "cloze:native", metadata={"language": "de"}).format.answer_prompt
    'Antwort:'
    """
    table = format_table(spec)
    if selection is None:
        if not table:
            return None
        selection = next(iter(table))
    if selection in table:
        return Selected(selection, _entry(spec, selection, table[selection]))
    if "[" in selection:
        variation = Variation.parse(selection)
        base = select_format(spec, variation.label or None, metadata=metadata)
        if base is None:
            raise _no_format(variation)
        grammar = Grammar.of(variations, base.format.variations)
        return grammar.vary(base.format, Variation(base.label, variation.choices))
    if selection in formats or selection in dialect_names:
        return Selected(selection, FormatConfig.by_name(selection))
    name, colon, code = selection.rpartition(":")
    if not colon:
        known = [*table, *formats, *dialect_names]
        raise UnknownFormatError(f"unknown format '{selection}'", hint=nearest(selection, known, listed="formats"))
    base = select_format(spec, name or None)
    if base is None:
        hint = f"name a format before the colon, e.g. mcqa:{code}"
        raise ConfigError("the task has no format that a language could be chosen for", hint=hint)
    try:
        return Selected(f"{base.label}:{code}", localize(base.format, label_language(code, metadata)))
    except ConfigError as error:
        raise error.relocate(f"@{selection}") from error


def _entry_label(table: Mapping[str, Any], selection: str | None) -> str:
    """The label of the entry that a selection uses, without its variation and language."""
    label = selection or next(iter(table), "")
    for mark in ("[", ":"):
        label = label if label in table else label.partition(mark)[0]
    return label


def task_overrides(spec: FormatSpec, selection: str | None) -> tuple[str | None, dict[str, Any]]:
    """The label of a selected finished prompt, or None for a format; and the task's keys that the entry replaces.

    >>> entry = {"type": "prompt", "doc_to_text": "Q: {{question}}\\nA:", "output_type": "generate_until"}
    >>> task_overrides({"mcqa": None, "theirs": entry}, "theirs")[0]
    'theirs'
    >>> task_overrides({"mcqa": {"num_fewshot": 5, "question_prefix": "Q: "}}, None)
    (None, {'num_fewshot': 5})
    """
    table = format_table(spec)
    label = _entry_label(table, selection)
    entry = table.get(label)
    if not isinstance(entry, Mapping):
        return None, {}
    if not is_prompt(entry):
        return None, {key: value for key, value in entry.items() if key in TASK_KEYS}
    if selection is not None and selection.removeprefix(label).startswith(":"):
        hint = f"leave out the language: @{label}"
        raise ConfigError("a finished prompt has its own words", where=f"@{selection}", hint=hint)
    keys = {key: value for key, value in entry.items() if key != "type"}
    for key in keys:
        if key not in _PROMPT_KEYS:
            hint = nearest(key, _PROMPT_KEYS, listed="it takes")
            raise ConfigError(f"unknown key '{key}' of a finished prompt", where=f"{label}.{key}", hint=hint)
    return label, keys


def without_overrides(spec: FormatSpec, selection: str | None, keys: Collection[str]) -> FormatSpec:
    """The value of `formats:`, in which the selected entry no longer replaces these keys of the task."""
    _, overrides = task_overrides(spec, selection)
    if not isinstance(spec, Mapping) or not overrides.keys() & keys:
        return spec
    if "type" in spec:
        return {key: value for key, value in spec.items() if key not in keys}
    table = format_table(spec)
    label = _entry_label(table, selection)
    return {**table, label: {key: value for key, value in table[label].items() if key not in keys}}


def is_prompt(entry: Any) -> bool:
    """Whether an entry of `formats:` is a finished prompt."""
    return isinstance(entry, Mapping) and entry.get("type") == PROMPT


def fewshot_draw(selection: str) -> int:
    """Which draw of few-shot examples a label names for a task that has no format to vary.

    >>> fewshot_draw("[draw=2]")
    2
    """
    variation = Variation.parse(selection)
    if variation.label or set(variation.choices) - {"draw"}:
        raise _no_format(variation)
    return draw_number(variation)


def _no_format(variation: Variation) -> ConfigError:
    hint = f"name a format before the brackets, e.g. mcqa{variation}"
    return ConfigError("the task has no format that could be varied", hint=hint)


def supported_formats(spec: FormatSpec, mapping: FieldMapping) -> list[str]:
    """The labels of all formats that a mapping supports: registered ones, then those that `spec` defines.

    Finished prompts are not among them, nor formats that ``@all`` leaves out (controls, and `mcq_cot`, whose
    completions are long) unless `spec` has them. A mapping without a question supports only what `spec` defines, and
    one that asks nothing (``doc_to_text: ""``, as for the perplexity of texts) supports none.
    """
    table = format_table(spec)
    if mapping.question == "" and mapping.choices is None:
        return []
    # A function that returns a format says nothing else.
    in_all = [name for name in formats if getattr(formats.get(name), "in_all", True)]
    registered = in_all if mapping.question is not None else []
    labels = dict.fromkeys([*registered, *(label for label in table if not is_prompt(table[label]))])
    candidates = {label: _entry(spec, label, table.get(label)) for label in labels}
    return [label for label, format in candidates.items() if mapping.choices is not None or not format.needs_choices]


def format_table(spec: FormatSpec) -> dict[str, Any]:
    """The value of `formats:`, in whatever way it is written, as a table of labels and definitions."""
    if spec is None:
        return {}
    if isinstance(spec, str):
        return {spec: None}
    if isinstance(spec, FormatConfig):
        return {spec.format_name or type(spec).__name__: spec}
    if not isinstance(spec, Mapping):
        raise ConfigError(
            f"expected a format's name or a mapping, got {excerpt(spec)}", hint="write e.g. 'formats: mcqa'"
        )
    if "type" in spec:
        if not isinstance(spec["type"], str):
            raise ConfigError(f"expected a format's name, got {excerpt(spec['type'])}", where="type")
        return {spec["type"]: dict(spec)}
    if not spec:
        raise ConfigError("the table of formats is empty", hint="name at least one, e.g. 'formats: mcqa'")
    return {str(key): value for key, value in spec.items()}


def _entry(spec: FormatSpec, label: str, value: Any) -> FormatConfig:
    """The format of an entry of the table; the `where` of an error is the path of keys below `formats`."""
    try:
        if isinstance(value, FormatConfig):
            return value
        if value is None or isinstance(value, str):
            return FormatConfig.by_name(label if value is None else value)
        if not isinstance(value, Mapping):
            hint = "write e.g. '{type: mcqa, question_prefix: \"Q: \"}'"
            raise ConfigError(f"expected a mapping of format fields, got {excerpt(value)}", hint=hint)
        overrides = {key: field for key, field in value.items() if key not in TASK_KEYS}
        name = overrides.pop("type", label)
        if not isinstance(name, str) or (name not in formats and name not in dialect_names):
            hint = nearest(str(name), [*formats, *dialect_names], listed="give it a 'type', one of")
            raise ConfigError(f"unknown format type '{name}'", where="type" if "type" in value else None, hint=hint)
        return FormatConfig.by_name(name, overrides)
    except ConfigError as error:
        in_table = isinstance(spec, Mapping) and "type" not in spec
        path = [label] * in_table + [error.where] * bool(error.where)
        raise error.relocate(".".join(map(str, path)) or None) from error
