"""evaluate: run forms on a model and score them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from multiform.arguments import parse_arguments
from multiform.config import TaskConfig
from multiform.config.generation import check_generation
from multiform.engine import answers
from multiform.engine.progress import Progress, Silent
from multiform.errors import ConfigError, UsageError
from multiform.formats.identity import short_hash
from multiform.models import Model, models
from multiform.requests import Instance, Output, Request
from multiform.results import FormResult, Results
from multiform.results.groups import group_results
from multiform.results.provenance import provenance
from multiform.tasks import Answered, Group, Node, PromptOptions, ScoredDoc, Task, TaskManager

DEFAULT_MODEL = "bundled"
DEFAULT_SEEDS = (0, 1234, 1234, 1234)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSettings:
    """What decides a prompt beside the task: the same for `run`, `show` and `validate`."""

    num_fewshot: int | None = None
    apply_chat_template: bool | str = False
    fewshot_as_multiturn: bool | None = None
    system_instruction: str | None = None
    gen_kwargs: Mapping[str, Any] = field(default_factory=dict)
    fewshot_seed: int = DEFAULT_SEEDS[3]

    @property
    def multiturn(self) -> bool:
        """Examples are turns of their own in a chat, unless that is turned off."""
        return bool(self.apply_chat_template) if self.fewshot_as_multiturn is None else self.fewshot_as_multiturn

    def options(self, model: Model | None) -> PromptOptions:
        chat = bool(self.apply_chat_template)
        return PromptOptions(
            system_instruction=self.system_instruction,
            apply_chat_template=chat,
            fewshot_as_multiturn=self.multiturn,
            chat_template=model.apply_chat_template if chat and model is not None else None,
        )


def evaluate(
    *,
    tasks: str | Sequence[str | TaskConfig | Task],
    model: str | Model = DEFAULT_MODEL,
    model_args: str | Mapping[str, Any] | None = None,
    num_fewshot: int | None = None,
    limit: float | None = None,
    samples: Mapping[str, Sequence[int]] | None = None,
    batch_size: int | str | None = None,
    device: str | None = None,
    gen_kwargs: str | Mapping[str, Any] | None = None,
    include_path: str | Path | Sequence[str | Path] | None = None,
    dataset_mirror: str | Path | None = None,
    apply_chat_template: bool | str = False,
    fewshot_as_multiturn: bool | None = None,
    system_instruction: str | None = None,
    seeds: Sequence[int | None] = DEFAULT_SEEDS,
    progress: Progress | None = None,
) -> Results:
    """Run forms on a model and score them.

    >>> results = evaluate(model="dummy", tasks=["quiz@mcqa", "quiz@cloze"], limit=8)
    >>> sorted(results)
    ['quiz@cloze', 'quiz@mcqa']
    >>> 0 <= results["quiz@mcqa"]["acc,none"] <= 1
    True
    """
    started = time.monotonic()
    progress = progress or Silent()
    settings = PromptSettings(
        num_fewshot=num_fewshot,
        apply_chat_template=apply_chat_template,
        fewshot_as_multiturn=fewshot_as_multiturn,
        system_instruction=system_instruction,
        gen_kwargs=parse_arguments(gen_kwargs, where="gen_kwargs"),
        fewshot_seed=seeds[3] if seeds[3] is not None else DEFAULT_SEEDS[3],
    )
    check_selection(limit, samples)
    groups: list[Group] = []
    forms = load_tasks(tasks, settings, include_path=include_path, dataset_mirror=dataset_mirror, groups=groups)
    arguments = parse_arguments(model_args, where="model_args")
    arguments |= {k: v for k, v in {"batch_size": batch_size, "device": device}.items() if v is not None}
    # Prompts need the model only for its chat template: without one, every mistake shows before it is loaded.
    loaded = load_model(model, arguments, progress) if apply_chat_template else None
    works = [work for form in forms for work in _works(form, limit, samples, settings.options(loaded))]
    loaded = loaded or load_model(model, arguments, progress)
    scored = _score_all(loaded, works, progress)
    run = {
        "model": model if isinstance(model, str) else type(model).__name__,
        "model_args": {k: v for k, v in arguments.items() if k not in ("batch_size", "device")},
        **loaded.info(),
        "batch_size": batch_size,
        "batch_sizes": [],
        "device": device,
        "use_cache": None,
        "limit": limit,
        "samples": None if samples is None else {task: list(ids) for task, ids in samples.items()},
        "bootstrap_iters": 0,
        "gen_kwargs": dict(settings.gen_kwargs) or None,
        **dict(zip(("random_seed", "numpy_seed", "torch_seed", "fewshot_seed"), seeds, strict=True)),
    }
    results = [_form_result(form, scored[form.name], settings, loaded) for form in forms]
    return Results(
        forms=results,
        groups=[made for group in groups for made in group_results(group, {form.form: form for form in results})],
        run=run,
        provenance=provenance(
            model=loaded,
            seconds=time.monotonic() - started,
            system_instruction=system_instruction,
            fewshot_as_multiturn=settings.multiturn,
            chat=bool(apply_chat_template),
        ),
    )


def load_tasks(
    tasks: str | Sequence[str | TaskConfig | Task],
    settings: PromptSettings,
    *,
    include_path: str | Path | Sequence[str | Path] | None = None,
    dataset_mirror: str | Path | None = None,
    groups: list[Group] | None = None,
) -> list[Task]:
    """The forms that are named or given, with the settings of this run; groups are added to `groups`."""
    manager = TaskManager(include_path)
    mirror = Path(dataset_mirror) if dataset_mirror else None
    made: list[Task] = []
    for item in [tasks] if isinstance(tasks, str) else tasks:
        if isinstance(item, Task):
            made.append(item)
        elif isinstance(item, TaskConfig):
            made.append(Task.from_config(item, dataset_mirror=mirror))
        else:
            nodes = manager.tree(item)
            configs = {config.form_name: config for node in nodes for config in _leaves(node)}
            made += [Task.from_config(config, dataset_mirror=mirror) for config in configs.values()]
            if groups is not None:
                groups += [node for node in nodes if isinstance(node, Group)]
    forms = list({task.name: task for task in made}.values())
    if not forms:
        raise UsageError("no tasks named", where="--tasks", hint="name some, e.g. --tasks quiz@all")
    for form in forms:
        _apply(settings, form)
    return forms


def _leaves(node: Node) -> list[TaskConfig]:
    return list(node.tasks()) if isinstance(node, Group) else [node]


def load_model(model: str | Model, arguments: Mapping[str, Any], progress: Progress) -> Model:
    """The model itself, or the registered one of that name."""
    if isinstance(model, Model):
        return model
    if model not in models:
        models.get(model)  # raises, with the nearest name
    progress.message(f"loading model '{model}'")
    try:
        kind = models.get(model)
    except ImportError as error:
        what = f"model '{model}' needs a package that is not installed: {error}"
        raise UsageError(what, where="--model", hint="pip install 'multiform[hf]'") from error
    return kind(**arguments)


def check_selection(limit: float | None, samples: Mapping[str, Sequence[int]] | None) -> None:
    """Refuse a choice of documents that cannot be meant."""
    if limit is not None and samples is not None:
        raise UsageError("limit and samples exclude each other", where="--samples", hint="give one of them")
    if limit is not None and (limit <= 0 or (limit > 1 and limit != int(limit))):
        what = f"expected a whole number of documents or a fraction below 1, got {limit}"
        raise UsageError(what, where="--limit", hint="give e.g. --limit 100 or --limit 0.1")


@dataclass(slots=True)
class _Work:
    """A document of a form that waits for its answers."""

    task: Task
    doc_id: int
    instances: list[Instance]
    waiting: int
    answered: Answered | None = None


def _apply(settings: PromptSettings, task: Task) -> None:
    if settings.num_fewshot is not None:
        task.set_num_fewshot(settings.num_fewshot)
    task.set_fewshot_seed(settings.fewshot_seed)
    if settings.gen_kwargs and task.OUTPUT_TYPE == "generate_until":
        given = dict(settings.gen_kwargs)
        try:
            check_generation(given)
        except ConfigError as error:
            raise UsageError(error.what, where="--gen_kwargs", hint=error.hint) from error
        if isinstance(given.get("until"), str):
            given["until"] = [given["until"]]
        task.config.generation_kwargs = {**task.config.generation_kwargs, **given}


def _works(
    task: Task, limit: float | None, samples: Mapping[str, Sequence[int]] | None, options: PromptOptions
) -> list[_Work]:
    chosen = None if samples is None else samples.get(task.name, samples.get(task.config.base_name))
    works = []
    for doc_id, doc in task.doc_iterator(limit=limit, samples=chosen):
        instances = task.requests_of(doc_id, doc, options)
        works.append(_Work(task, doc_id, instances, len({instance.request for instance in instances})))
    return works


def _score_all(model: Model, works: Sequence[_Work], progress: Progress) -> dict[str, list[ScoredDoc]]:
    """Ask the model, and score each document as soon as its last answer is there."""
    waiting: dict[Request, list[_Work]] = {}
    for work in works:
        for request in dict.fromkeys(instance.request for instance in work.instances):
            waiting.setdefault(request, []).append(work)
    outputs: dict[Request, Output] = {}
    scored: dict[str, list[ScoredDoc]] = {work.task.name: [] for work in works}
    running = {work.task.name: _Running() for work in works}
    progress.begin(len(waiting), len(works))
    try:
        for request, output in answers(model, waiting):
            outputs[request] = output
            progress.answered()
            for work in waiting[request]:
                work.waiting -= 1
                if work.waiting == 0:
                    answered = Answered(
                        doc_id=work.doc_id,
                        instances=tuple(work.instances),
                        outputs=tuple(outputs[instance.request] for instance in work.instances),
                    )
                    work.answered = answered
                    docs = work.task.process_instances(answered)
                    scored[work.task.name] += docs
                    running[work.task.name].show(work.task.name, docs, progress)
    finally:
        progress.end()
    for task in {work.task.name: work.task for work in works}.values():
        mine = [work.answered for work in works if work.task is task and work.answered is not None]
        scored[task.name] += task.process_deferred(mine)
    return {name: sorted(docs, key=lambda doc: doc.doc_id) for name, docs in scored.items()}


@dataclass(slots=True)
class _Running:
    """The running mean of a form's first metric."""

    total: float = 0.0
    n: int = 0

    def show(self, form: str, docs: Sequence[ScoredDoc], progress: Progress) -> None:
        metric, value = next(iter(docs[0].values.items()), ("", None)) if docs else ("", None)
        if not isinstance(value, int | float):  # such as the parts of a ratio
            return
        self.total += float(value)
        self.n += 1
        progress.scored(form, metric, self.total / self.n, self.n)


def _form_result(task: Task, scored: list[ScoredDoc], settings: PromptSettings, model: Model) -> FormResult:
    config = task.config
    form = config.format.to_dict() if config.format is not None else None
    described = task.dump_config()
    shots = task.num_fewshot
    identity = short_hash(
        {
            "config": {key: value for key, value in described.items() if key not in ("task", "tag", "metadata")},
            "format": form,
            "seed": settings.fewshot_seed if shots else None,
            "system_instruction": settings.system_instruction,
            "chat": model.chat_template_name() if settings.apply_chat_template else None,
            "multiturn": settings.multiturn,
        }
    )
    return FormResult(
        form=task.name,
        task=config.base_name,
        alias=config.task_alias or task.name,
        identity=identity,
        version=config.metadata.get("version", "N/A"),
        num_fewshot=shots,
        total_docs=len(task.eval_docs),
        estimates=task.aggregate(scored),
        higher_is_better=task.higher_is_better(),
        config=described,
        format=form,
        set_aside=(*config.set_aside, *task.scoring.set_aside),
        samples=scored,
    )
