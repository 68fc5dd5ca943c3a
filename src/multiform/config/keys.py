"""TaskKeys: every key that a task file can have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from multiform.config.fewshot import FewshotConfig
from multiform.config.scoring import FilterPipeline, MetricConfig, ScorerConfig
from multiform.formats import FormatConfig, OutputType, TemplateConfig


class Unstated(str):
    """A default value, which equals the plain string but can be told from the same value written in a file."""

    __slots__ = ()


class UnstatedFlag(int):
    """The default of a flag that is off, which can be told from the same value written in a file."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(bool(self))


_GENERATION: Any = Unstated("generate_until")
_OFF: Any = UnstatedFlag(False)


@dataclass(frozen=True, kw_only=True)
class TaskKeys:
    """The keys of a task file, with their defaults."""

    #: Unique name; ``name@format`` selects a format.
    task: str = ""
    #: Shown in tables instead of the name.
    task_alias: str | None = None
    #: A format's name, a mapping with `type` and overrides, or a table of several.
    formats: str | dict[str, Any] | FormatConfig | None = None
    #: Axes on which formats may be varied: names of values with the fields that they change.
    variations: dict[str, Any] | None = None
    output_type: OutputType = _GENERATION
    tag: list[str] = field(default_factory=list)
    custom_dataset: Callable[..., Any] | None = None
    #: Name on the hub, local folder or file, or a file type ("json") with `data_files` in `dataset_kwargs`.
    dataset_path: str | None = None
    dataset_name: str | None = None
    dataset_kwargs: dict[str, Any] = field(default_factory=dict)
    training_split: str | None = None
    #: Evaluated when there is no test split.
    validation_split: str | None = None
    test_split: str | None = None
    fewshot_split: str | None = None
    #: Columns by other names, such as those of another revision of the dataset: the old name with the new one.
    rename_columns: dict[str, str] | None = None
    #: Documents to leave out: a template that is true for them, such as ``{{label == -1}}``.
    drop_docs: str | None = None
    process_docs: Callable[..., Any] | None = None
    #: Text or Jinja template before every prompt.
    description: str | Callable[..., str] = ""
    #: Whether sentences about choices stay in the description under a format that shows no choices.
    keep_description: bool = False
    doc_to_text: str | int | list[Any] | Callable[..., Any] | None = None
    doc_to_choice: str | list[Any] | dict[str, Any] | Callable[..., Any] | None = None
    doc_to_target: str | int | float | list[Any] | Callable[..., Any] | None = None
    #: What the question is about, such as a passage: formats write it before the question.
    doc_to_context: str | None = None
    #: The number, 0 or 1, from which `doc_to_target` counts choices; by default numbers count from 0, digits as text
    #: from what the data show.
    answer_base: int | None = None
    #: The reasoning that leads to the answer, shown by few-shot examples of formats that ask for it.
    doc_to_rationale: str | Callable[..., Any] | None = None
    #: The beginning of the completion, added to the prompt.
    gen_prefix: str | None = None
    doc_to_image: str | list[str] | Callable[..., Any] | None = None
    doc_to_audio: str | list[str] | Callable[..., Any] | None = None
    process_results: Callable[..., Any] | None = None
    target_delimiter: str = " "
    fewshot_delimiter: str = "\n\n"
    fewshot_config: dict[str, Any] | FewshotConfig | None = None
    num_fewshot: int | None = None
    generation_kwargs: dict[str, Any] = field(default_factory=dict)
    metric_list: list[MetricConfig] = field(default_factory=list)
    filter_list: list[FilterPipeline] = field(default_factory=list)
    scorer: str | ScorerConfig | None = None
    repeats: int = 1
    unsafe_code: bool = False
    use_prompt: str | None = None
    multiple_inputs: bool = False
    #: False, where a task says so: a text that spells a list is one answer.
    multiple_targets: bool = _OFF
    should_decontaminate: bool = False
    doc_to_decontamination_query: str | Callable[..., str] | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    #: A row with the columns of the dataset, made up for the task's page and for tests without the dataset.
    example: dict[str, Any] | None = None
    #: What is known to be wrong with the prompts and kept on purpose, such as an error of another harness.
    known_errors: list[str] | None = None
    #: Codes of lint that are not reported of this task, each with the reason.
    lint_ignore: dict[str, str] | None = None
    #: A template's name, or a mapping with `template_type` and overrides.
    template: str | dict[str, Any] | TemplateConfig | None = None
    #: The template as an object: the same as `template`, and what `template` resolves to.
    template_config: TemplateConfig | None = None
    #: Noise in the question: `type`, `probability`, `seed` and `unmodifiable_words`.
    perturbation: dict[str, Any] | None = None
    perturbation_unmodifiable_words: list[str] | None = None
