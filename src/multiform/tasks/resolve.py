"""resolve: what a task states, under the format or template that it runs with.

    keys of the format's entry -> use_prompt -> perturbation -> format or template -> generation -> few-shot examples

This is the only place that knows which of task, format and dialect wins. It reads no file. Each step takes the values
so far and returns those that it replaces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from multiform.errors import ConfigError, excerpt
from multiform.fields import Field, FieldSpec
from multiform.formats.base import FormatConfig
from multiform.formats.compile import FieldMapping, check_raw, compile_format
from multiform.formats.dialects.template_factory import wrap_mapping
from multiform.formats.infer import Recovered, TaskFields, infer
from multiform.formats.infer.layout import UnclearPromptError
from multiform.formats.infer.words import description_without_choices, without_choices
from multiform.formats.perturbation import Perturbation, perturb_field
from multiform.formats.select import UnknownFormatError, fewshot_draw, select_format, task_overrides
from multiform.formats.variation import Grammar
from multiform.prompts.template import compile_template
from multiform.requests import check_generation, resolved_names
from multiform.schema import Where, check_values
from multiform.tasks.keys import FewshotConfig, StatedKeys, TaskKeys, default_keys

Values = dict[str, Any]

_FIELDS = ("doc_to_text", "doc_to_choice", "doc_to_target")
#: Keys of the task that `fewshot_config` may override.
_INHERITED_BY_SHOTS = (*_FIELDS, "doc_to_rationale", "gen_prefix", "target_delimiter", "fewshot_delimiter",
                       "fewshot_split", "process_docs")  # fmt: skip
_TEMPLATES = (*_FIELDS, "doc_to_turns", "doc_to_context", "doc_to_rationale", "description", "gen_prefix", "drop_docs")


def resolve(stated: StatedKeys, library_prompt: Mapping[str, Any], *, where: Where) -> Values:
    """The values that a task runs with: what it states, under the format or template that it runs with.

    `library_prompt` has the fields that `use_prompt` names, and `where` turns a path of keys into the place that a
    message names. Beside the keys, the values have `stated_mapping` (the task's own fields), `mapping` (the fields that
    the format renders), `fewshot_mapping` (those of few-shot examples with fields of their own), `format`,
    `format_label`, what the variation of the format says, `recovered`, `template_config` and `overridden`.
    """
    label, keys = apply_overrides(stated, where)
    selection = selected_format(keys)
    values: Values = {
        **default_keys(),
        **keys.data,
        "format": None,
        "format_label": None,
        "recovered": None,
        "output_type_stated": "output_type" in keys.data,
        **library_prompt,
    }
    values["stated_mapping"] = _mapping(values)
    values["doc_to_text"] = _with_noise(values["doc_to_text"], values, where)
    values["mapping"] = _mapping(values)
    _compile_fields(values, where)
    if label is None:
        values |= _format(values, keys, where)
    elif selection is not None:
        axes = selection.removeprefix(label)
        values |= {**(_draw(axes, values, where) if axes else {}), "format_label": selection}
    values |= _generation(values, where)
    values |= _fewshot(values, keys, where)
    if isinstance(values["scorer"], str):
        values["scorer"] = {"type": values["scorer"]}
    return values


def selected_format(stated: StatedKeys) -> str | None:
    """The format that follows the ``@`` in the name of a task, or in the name that a run asks for."""
    return stated.get("_formats_selection") or stated.get("task", "").partition("@")[2] or None


def apply_overrides(stated: StatedKeys, where: Where) -> tuple[str | None, StatedKeys]:
    """The keys of a task with those that the entry of the selected format replaces.

    Also returns the label of the entry if it is a finished prompt, and None if it is a format.
    """
    formats = stated.get("formats")
    with _placing(where, "formats"):
        label, overrides = task_overrides(formats, selected_format(stated))
    check_values(TaskKeys, overrides, lambda *path: where(*format_key(formats, label, str(path[0]))))
    return label, stated.with_keys(**overrides)


def _mapping(values: Mapping[str, Any]) -> FieldMapping:
    question, choices, answer = (values[name] for name in _FIELDS)
    return FieldMapping(question, choices, answer, values["doc_to_context"])


def _with_noise(question: FieldSpec, values: Values, where: Where) -> FieldSpec:
    """The question with the perturbation that the task asks for."""
    if values["perturbation"] is None:
        return question
    with _placing(where, "perturbation"):
        perturbation = Perturbation.of(values["perturbation"], values["perturbation_unmodifiable_words"] or ())
    return perturb_field(question, perturbation)


def _compile_fields(values: Values, where: Where) -> None:
    """Compile every template, so that syntax errors are found when the file is read."""
    for name in _TEMPLATES:
        with _placing(where, name):
            Field.of(values[name])
            if name == "drop_docs" and values[name] is not None and not compile_template(values[name]).expression:
                message = f"expected one expression in braces, got {excerpt(values[name])}"
                raise ConfigError(message, hint='write e.g. drop_docs: "{{label == -1}}"')


def _format(values: Values, stated: StatedKeys, where: Where) -> Values:
    """The values that the selected format or template replaces; none without one."""
    selection = selected_format(stated)
    if values["template"] is not None:
        if values["formats"] is not None:
            hint = "keep one of the two; 'multiform convert' turns one into the other"
            raise ConfigError("a task has formats or a template", where=where("template"), hint=hint)
        if selection is None:
            return _template(values, where)
    if selection is not None and selection.startswith("[") and values["formats"] is None:
        return _draw(selection, values, where)
    try:
        with _placing(where, "formats", "variations"):
            selected = select_format(values["formats"], selection, values["variations"], values["metadata"])
            declared = [values["variations"], None if selected is None else selected.format.variations]
            if any(declared):  # axes that are declared wrongly are refused even if the format is not varied
                Grammar.of(*declared)
    except UnknownFormatError as error:
        if selection is None:
            raise
        raise error.relocate(f"{values['task'].partition('@')[0]}@{selection}") from error
    if selected is None:
        if values["doc_to_context"] is not None:
            hint = "name one under 'formats:', or write the context into doc_to_text"
            raise ConfigError("only a format writes a context", where=where("doc_to_context"), hint=hint)
        return {}
    foreign = values["formats"] is None and values["template"] is None and not values["multiple_inputs"]
    recovered = _recover_mapping(values["stated_mapping"], selected.format, values, stated, where) if foreign else None
    mapping = _raw_mapping(values["stated_mapping"], recovered, values, where)
    with _placing(where, "formats"):
        check_raw(selected.format, mapping)
        templates = compile_format(selected.format, mapping, _answer_base(values, recovered))
    return {
        "format_label": selected.label,
        "axes": selected.axes,
        "choice_order": selected.order,
        "fewshot_draw": selected.draw,
        "recovered": recovered,
        "mapping": mapping,
        **templates,
        **_replaced_by_format(selected.format, values, foreign=recovered is not None),
    }


def _answer_base(values: Values, recovered: Recovered | None) -> int | None:
    """The stated `answer_base`, for the task's own field; the recovered index of an answer counts from 0."""
    is_stated = recovered is None or recovered.mapping.answer is values["stated_mapping"].answer
    base: int | None = values["answer_base"]
    return base if is_stated else None


def _draw(selection: str, values: Values, where: Where) -> Values:
    """The values of a task without `formats:` of which another draw of few-shot examples is selected."""
    try:
        draw = fewshot_draw(selection)
    except ConfigError as error:
        raise error.relocate(f"{values['task']}@{selection}") from error
    replaced = {} if values["template"] is None else _template(values, where)
    axes = {"draw": str(draw)} if draw else {}
    return {**replaced, "format_label": selection, "axes": axes, "fewshot_draw": draw}


def _template(values: Values, where: Where) -> Values:
    """The values that the task's `template:` replaces."""
    with _placing(where, "template"):
        template = wrap_mapping(values["template"], values["mapping"], values["output_type"], values["answer_base"])
    replaced: Values = {**template, "output_type_stated": True}
    format: FormatConfig | None = template["format"]
    return replaced if format is None else {**replaced, **_replaced_by_format(format, values)}


def _replaced_by_format(format: FormatConfig, values: Values, *, foreign: bool = False) -> Values:
    """The values of layout and scoring that a format replaces, and `overridden`, a list of those that it overrides."""
    overridden = []
    replaced: Values = {}
    if not format.shows_choices and not values["keep_description"]:
        replaced["description"], changes = _description(values["description"])
        overridden += changes
    until = overridden_until(format, values["generation_kwargs"])
    if until is not None:
        overridden.append(f"until {excerpt(until, 40)}")
    if values["gen_prefix"] is not None and values["gen_prefix"] != format.gen_prefix:
        overridden.append(f"gen_prefix {excerpt(values['gen_prefix'], 40)}")
    if values["scorer"] is not None and format.scorer is not None:
        overridden.append(f"scorer {excerpt(values['scorer'], 40)}")
    if values["filter_list"] and (format.scorer is not None or format.scored != "generation"):
        overridden.append("filter_list " + ", ".join(pipeline["name"] for pipeline in values["filter_list"]))
        replaced["filter_list"] = []
    if foreign and values["process_results"] is not None and format.output_type != values["output_type"]:
        overridden.append("process_results")  # it was written for other outputs
        replaced["process_results"] = None
    return {
        **replaced,
        "format": format,
        "overridden": tuple(overridden),
        "output_type": format.output_type,
        "output_type_stated": True,
        "gen_prefix": format.gen_prefix,
        "target_delimiter": format.target_delimiter,
        "fewshot_delimiter": format.fewshot_delimiter,
        "scorer": format.scorer if format.scorer is not None else values["scorer"],
    }


def _description(description: str | Callable[..., str]) -> tuple[str | Callable[..., str], list[str]]:
    """The description without sentences about choices, and a list of what was changed."""
    if callable(description):
        return description_without_choices(description), ["what the description says of choices"]
    rest = without_choices(description)
    if rest == description:
        return description, []
    changed = f"description {excerpt(description.strip(), 60)}"
    return rest, [f"{changed} for {excerpt(rest.strip(), 60)}" if rest else changed]


def overridden_until(format: FormatConfig, generation_kwargs: Mapping[str, Any]) -> list[str] | None:
    """The stop sequences of a task, if it generates under a format with other ones; None otherwise."""
    until = generation_kwargs.get("until")
    if until is None or not format.generates:
        return None
    stops = (format.generation_kwargs or {}).get("until", format.until())
    until, stops = ([stop] if isinstance(stop, str) else list(stop) for stop in (until, stops))
    return None if until == stops else until


def _recover_mapping(
    prompt: FieldMapping, format: FormatConfig, values: Values, stated: StatedKeys, where: Where
) -> Recovered:
    """The raw mapping behind the fields of a task that was not written for formats."""
    ranks = stated.get("output_type") == "multiple_choice"
    fields = TaskFields(
        text=prompt.question,
        choices=prompt.choices,
        target=prompt.answer,
        ranks=ranks,
        processed=values["process_docs"] is not None,
        needs_choices=format.needs_choices,
        answer_base=values["answer_base"],
    )
    try:
        result = infer(fields)
    except UnclearPromptError as error:
        raise error.relocate(where(error.key)) from error
    return result.spread_out() if format.shows_choices and ranks and values["process_results"] is None else result


def _raw_mapping(prompt: FieldMapping, recovered: Recovered | None, values: Values, where: Where) -> FieldMapping:
    """The mapping that a format renders: the one recovered from a finished prompt, or the task's own."""
    raw = prompt if recovered is None else recovered.mapping
    question = "question" if raw.question is None else raw.question
    answer = "answer" if raw.answer is None else raw.answer
    return FieldMapping(_with_noise(question, values, where), raw.choices, answer, raw.context)


def _generation(values: Values, where: Where) -> Values:
    """The generation arguments: the format's override the task's, and these override greedy defaults."""
    format: FormatConfig | None = values["format"]
    kwargs, own = values["generation_kwargs"], {} if format is None else dict(format.generation_kwargs or {})
    if values["output_type"] != "generate_until" and not (format is not None and format.generates):
        return {"generation_kwargs": dict(kwargs)}
    with _placing(where, "generation_kwargs"):
        check_generation(kwargs)
    try:
        check_generation(own)
    except ConfigError as error:
        key = format_key(values["formats"], values["format_label"], "generation_kwargs")
        raise error.relocate(where(*key)) from error
    limit = FormatConfig.default_max_gen_toks if format is None else format.default_max_gen_toks
    greedy, kwargs = {"temperature": 0.0, "do_sample": False, "max_gen_toks": limit}, resolved_names(kwargs)
    if format is None:
        kwargs = {**(kwargs or greedy), "until": kwargs.get("until", [values["fewshot_delimiter"]])}
    else:  # the task's stop sequences were written for its own prompt, not for this format's
        kwargs.pop("until", None)
        kwargs = {**greedy, **kwargs, "until": format.until(), **resolved_names(own)}
    if "temperature" in kwargs:
        kwargs["temperature"] = float(kwargs["temperature"])
    if isinstance(kwargs["until"], str):
        kwargs["until"] = [kwargs["until"]]
    return {"generation_kwargs": kwargs}


def _fewshot(values: Values, stated: StatedKeys, where: Where) -> Values:
    """The few-shot configuration, completed with the task's values."""
    config = stated.get("fewshot_config")
    if isinstance(config, FewshotConfig):
        config = {key: value for key, value in vars(config).items() if value is not None}
    config = dict(config or {})
    if config.get("doc_to_text") is not None and values["recovered"] is None:
        config["doc_to_text"] = _with_noise(config["doc_to_text"], values, where)
    format: FormatConfig | None = values["format"]
    mapping = None
    with _placing(where, "fewshot_config"):
        if format is not None and any(config.get(name) is not None for name in _FIELDS):
            mapping = _fewshot_mapping(config, values, stated, where)
        if format is not None and (mapping is not None or format.of_shots() != format):
            base = _answer_base(values, values["recovered"])
            config |= compile_format(format.of_shots(), mapping or values["mapping"], base)
        fewshot = FewshotConfig.from_dict(config, **{name: values[name] for name in _INHERITED_BY_SHOTS})
    return {"fewshot_config": fewshot, "fewshot_mapping": mapping}


def _fewshot_mapping(config: Mapping[str, Any], values: Values, stated: StatedKeys, where: Where) -> FieldMapping:
    """The mapping of few-shot examples with fields of their own, which goes through the same format as the task."""
    format: FormatConfig = values["format"]
    foreign = values["recovered"] is not None
    raw = values["stated_mapping"] if foreign else values["mapping"]
    if foreign and format.needs_choices and config.get("samples") is None:
        config = {}  # examples laid out otherwise, such as with reasoning, get the layout of the format
    mapping = FieldMapping(
        config.get("doc_to_text", raw.question),
        config.get("doc_to_choice", raw.choices),
        config.get("doc_to_target", raw.answer),
        raw.context,
    )
    if foreign:
        mapping = _raw_mapping(mapping, _recover_mapping(mapping, format, values, stated, where), values, where)
    return mapping


def format_key(formats: Any, label: str | None, name: str) -> tuple[str, ...]:
    """The path of a format's key in a task file, if the task itself defines that format."""
    if not isinstance(formats, dict) or label is None:
        return ("formats",)
    return ("formats", name) if "type" in formats else ("formats", label, name)


@contextmanager
def _placing(where: Where, *roots: str) -> Iterator[None]:
    """Give an error, whose place is a path of keys below one of the roots, the file and line of the deepest key."""
    try:
        yield
    except ConfigError as error:
        place = error.where or ""
        root = next((root for root in roots if place.startswith(root)), roots[0])
        parts = filter(None, place.removeprefix(root).split("."))
        raise error.relocate(where(root, *(int(part) if part.isdigit() else part for part in parts))) from error
