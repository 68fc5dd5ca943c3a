"""Checks that the tests in docs/spec-coverage.md show what the page says: each row's behaviour is broken, and a test of
the row has to fail.

    python tools/scripts/spec_mutations.py                     break every row, one after the other
    python tools/scripts/spec_mutations.py Task.sampler ...    these rows alone
    python tools/scripts/spec_mutations.py --tests             also list tests that notice none of their row's mutations

A mutation changes classes in memory, in a child process that then runs the tests of the row; no file is changed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from multiform.forms import Task
from multiform.forms import task as task_module
from multiform.forms.doc_fields import FieldReader
from multiform.tasks import keys as keys_module
from multiform.tasks import resolve
from multiform.tasks.config import TaskConfig
from multiform.tasks.datasets.documents import DocSource
from multiform.tasks.group import GroupConfig
from multiform.tasks.index import Index
from multiform.tasks.keys import FewshotConfig
from tools.scripts import spec_coverage

Mutation = Callable[[], None]


# How classes are changed.


def replace(owner: Any, name: str, change: Callable[..., Any]) -> None:
    """Replace a method, property or function by ``change(original, *arguments)``."""
    place = next((cls for cls in owner.__mro__ if name in vars(cls)), owner) if isinstance(owner, type) else owner
    original = vars(place)[name]
    if isinstance(original, property):
        getter: Any = original.fget
        setattr(place, name, property(lambda self: change(getter, self)))
    elif isinstance(original, staticmethod | classmethod):
        function = original.__func__
        setattr(place, name, type(original)(lambda *args, **kwargs: change(function, *args, **kwargs)))
    else:
        setattr(place, name, lambda *args, **kwargs: change(original, *args, **kwargs))


def returning(owner: Any, name: str, change: Callable[[Any], Any]) -> Mutation:
    """A mutation after which a method returns something else."""
    return lambda: replace(owner, name, lambda original, *args, **kwargs: change(original(*args, **kwargs)))


def doing(owner: Any, name: str, change: Callable[..., Any]) -> Mutation:
    """A mutation after which a method does something else; ``change`` gets the original and its arguments."""
    return lambda: replace(owner, name, change)


def changing_keys(owner: Any, change: Callable[[dict[str, Any]], Mapping[str, Any]]) -> Mutation:
    """A mutation after which a configuration is built from other keys."""

    def init(original: Any, self: Any, **keys: Any) -> None:
        original(self, **change(keys))

    return doing(owner, "__init__", init)


def without(owner: Any, name: str) -> Mutation:
    """A mutation after which a key of a configuration is ignored."""
    return changing_keys(owner, lambda keys: {key: value for key, value in keys.items() if key != name})


def setting(owner: Any, name: str, change: Callable[[Any], Any]) -> Mutation:
    """A mutation after which a key that is given has another value."""
    return changing_keys(owner, lambda keys: {**keys, **({name: change(keys[name])} if keys.get(name) else {})})


def entries(key: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Mutation:
    """A mutation after which the mappings in a list of a task are others."""
    return setting(TaskConfig, key, lambda listed: [change(dict(entry)) for entry in listed])


def steps(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Mutation:
    """A mutation after which the steps of filter pipelines are others."""
    return entries("filter_list", lambda entry: {**entry, "filter": [change(dict(step)) for step in entry["filter"]]})


def dropping(key: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A function that leaves a key out of a mapping."""
    return lambda entry: {name: value for name, value in entry.items() if name != key}


def without_arguments(*known: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A function that leaves all but these keys out of a mapping."""
    return lambda entry: {name: value for name, value in entry.items() if name in known}


def scorer(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Mutation:
    """A mutation after which the scorer of a task is another."""
    return setting(TaskConfig, "scorer", lambda spec: change({"type": spec} if isinstance(spec, str) else dict(spec)))


def method(name: str, change: Callable[..., Any]) -> Mutation:
    """A mutation after which a method of a task does something else."""
    return doing(Task, name, change)


def not_called(name: str) -> Mutation:
    """A mutation after which a method that a subclass overrides is not called in a run."""
    return returning(task_module, "collect_hooks", dropping(name))


def ignored(name: str, result: Any = None) -> Mutation:
    """A mutation after which a method of a task does nothing."""
    return method(name, lambda *args, **kwargs: result)


def shots(change: Callable[[dict[str, Any], dict[str, Any]], tuple[dict[str, Any], dict[str, Any]]]) -> Mutation:
    """A mutation after which few-shot examples are configured by other keys, or inherit other values."""

    def from_dict(original: Any, cls: Any, cfg: Mapping[str, Any], **inherited: Any) -> FewshotConfig:
        keys, values = change(dict(cfg), inherited)
        configured: FewshotConfig = original(cls, keys, **values)
        return configured

    return doing(FewshotConfig, "from_dict", from_dict)


def own_shots(name: str) -> Mutation:
    """A mutation after which few-shot examples have the task's value, whatever `fewshot_config` says."""
    return shots(lambda keys, inherited: (dropping(name)(keys), inherited))


def inherited_shots(name: str) -> Mutation:
    """A mutation after which few-shot examples do not inherit a value of the task."""
    return shots(lambda keys, inherited: (keys, dropping("fewshot_split" if name == "split" else name)(inherited)))


def raw_docs(original: Any, self: Any) -> Any:
    """The documents of a split without any processing."""
    split = original.__name__.removesuffix("_docs") + "_split"
    return self.source.dataset[getattr(self.config, split)]


def first_of(values: Any) -> Any:
    """A list with the first of several values."""
    return values[:1] if isinstance(values, list | tuple) else values


def plain_names(members: list[Any]) -> list[Any]:
    """The members of a group without the keys that override theirs."""
    named = [member.get("task") if isinstance(member, dict) else member for member in members]
    return [name if isinstance(name, str) else member for name, member in zip(named, members, strict=True)]


class Reversed:
    """A sampler that gives the documents of another one from the end."""

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sampler, name)

    def sample(self, n: int, *, exclude: Any = None) -> list[int]:
        return list(range(len(self.sampler.pool)))[::-1][:n]


def tasks_with_tags(original: Any, self: Index) -> dict[str, list[str]]:
    """The tags without the groups that carry them."""
    named = {tag: [n for n in names if self.entries[n].kind == "task"] for tag, names in original(self).items()}
    return {tag: names for tag, names in named.items() if names}


def forget_output_types() -> None:
    """Have no class be for one output type alone."""
    kinds: list[type[Task]] = [Task, *task_module._CLASSES.values()]
    for kind in kinds:
        kind.OUTPUT_TYPE = None


def without_own_output_type(original: Any, self: Any, config: Any, settings: Any) -> None:
    """Configure a task that does not know its output type."""
    original(self, config, settings)
    vars(self).pop("OUTPUT_TYPE", None)


#: The fields of a task that have no effect once they are ignored, beside those in `MUTATIONS`.
IGNORED = (
    *("task_alias", "formats", "output_type", "dataset_path", "dataset_name", "dataset_kwargs", "training_split"),
    *("validation_split", "fewshot_split", "process_docs", "description", "gen_prefix", "doc_to_image", "doc_to_audio"),
    *("process_results", "target_delimiter", "fewshot_delimiter", "fewshot_config", "num_fewshot"),
    *("generation_kwargs", "metric_list", "filter_list", "scorer", "repeats", "unsafe_code", "use_prompt"),
    *("multiple_inputs", "should_decontaminate", "doc_to_decontamination_query", "metadata", "_formats_selection"),
    "_qualified_name",
)
METRIC_KEYS = ("metric", "aggregation", "reduction", "higher_is_better")

MUTATIONS: dict[str, list[Mutation]] = {
    **{f"TaskConfig.{name}": [without(TaskConfig, name)] for name in IGNORED},
    "TaskConfig.task": [
        setting(TaskConfig, "task", lambda name: "renamed" + name.partition("@")[1] + name.partition("@")[2]),
        setting(TaskConfig, "task", lambda name: name.partition("@")[0]),
    ],
    "TaskConfig.tag": [returning(Index, "tags", lambda tags: {})],
    "TaskConfig.custom_dataset": [setting(TaskConfig, "custom_dataset", lambda load: lambda **kwargs: load())],
    "TaskConfig.test_split": [
        doing(DocSource, "has", lambda original, self, kind:
              original(self, kind) and (kind != "test" or not original(self, "validation"))),
    ],
    "TaskConfig.doc_to_text": [setting(TaskConfig, "doc_to_text", lambda spec: "the same question")],
    "TaskConfig.doc_to_choice": [setting(TaskConfig, "doc_to_choice", lambda spec: ["one", "two"])],
    "TaskConfig.doc_to_target": [setting(TaskConfig, "doc_to_target", lambda spec: 0)],
    "TaskConfig.multiple_targets": [
        returning(FieldReader, "target", lambda target: target[0] if isinstance(target, list) else target),
        without(TaskConfig, "multiple_targets"),
    ],
    "TaskConfig.__post_init__": [
        doing(resolve, "_compile_fields", lambda original, values, where: None),
        doing(resolve, "_generation", lambda original, values, where: {}),
    ],
    "TaskConfig.to_dict": [
        returning(TaskConfig, "to_dict", dropping("doc_to_text")),
        doing(TaskConfig, "to_dict", lambda original, self, keep_callable=False: original(self)),
        doing(TaskConfig, "to_dict", lambda original, self, keep_callable=False: original(self, keep_callable=True)),
        returning(TaskConfig, "to_dict", lambda values: {**values, "output_type": "generate_until"}),
    ],
    **{
        f"FewshotConfig.{name}": [own_shots(name), inherited_shots(name)]
        for name in ("split", "process_docs", "doc_to_text", "doc_to_choice", "doc_to_target", "gen_prefix",
                     "fewshot_delimiter", "target_delimiter")
    },
    "FewshotConfig.sampler": [
        own_shots("sampler"),
        shots(lambda keys, inherited: ({**keys, "sampler": "first_n"}, inherited)),
    ],
    "FewshotConfig.fewshot_indices": [own_shots("fewshot_indices")],
    "FewshotConfig.samples": [own_shots("samples")],
    "FewshotConfig.__post_init__": [
        doing(keys_module, "check_values", lambda *args: None),
        lambda: setattr(keys_module, "logger", SimpleNamespace(warning=lambda *args: None)),
    ],
    "FewshotConfig.get_docs": [doing(FewshotConfig, "get_docs", lambda *args: None)],
    "FewshotConfig.from_dict": [
        shots(lambda keys, inherited: (keys, {})),
        shots(lambda keys, inherited: ({}, inherited)),
    ],
    "MetricConfig.metric": [entries("metric_list", lambda entry: {**entry, "metric": "bypass"})],
    "MetricConfig.aggregation": [entries("metric_list", dropping("aggregation"))],
    "MetricConfig.reduction": [entries("metric_list", dropping("reduction"))],
    "MetricConfig.higher_is_better": [entries("metric_list", dropping("higher_is_better"))],
    "MetricConfig.kwargs": [entries("metric_list", without_arguments(*METRIC_KEYS))],
    "FilterPipeline.name": [entries("filter_list", lambda entry: {**entry, "name": "renamed"})],
    "FilterPipeline.filter": [entries("filter_list", lambda entry: {**entry, "filter": [{"function": "take_first"}]})],
    "FilterPipeline.metric_list": [entries("filter_list", dropping("metric_list"))],
    "FilterStep.function": [steps(lambda step: {"function": "take_first"})],
    "FilterStep.kwargs": [steps(without_arguments("function"))],
    "ScorerConfig.type": [scorer(lambda entry: {**entry, "type": "first_token"})],
    "ScorerConfig.kwargs": [scorer(without_arguments("type"))],
    "GroupConfig.group": [
        setting(GroupConfig, "group", lambda name: f"{name}_renamed"),
        doing(GroupConfig, "from_dict", lambda original, cls, data, **options: (original(cls, data, **options)[0], {}))
    ],
    "GroupConfig.group_alias": [without(GroupConfig, "group_alias")],
    "GroupConfig.task": [
        returning(GroupConfig, "members", first_of),
        returning(GroupConfig, "members", plain_names),
    ],
    "GroupConfig.aggregate_metric_list": [without(GroupConfig, "aggregate_metric_list")],
    "GroupConfig.metadata": [without(GroupConfig, "metadata")],
    "GroupConfig.tag": [doing(Index, "tags", tasks_with_tags)],
    "Task.__init__": [
        method("__init__", lambda original, self, config, **k: original(self, TaskConfig(task="other"), **k)),
        method("_with_output_type", lambda original, cls, config: {**config, "doc_to_text": None}),
    ],
    "Task.OUTPUT_TYPE": [
        forget_output_types,
        lambda: setattr(Task, "OUTPUT_TYPE", "generate_until"),
        method("_configure", without_own_output_type),
    ],
    "Task.sampler": [
        method("sampler", lambda original, self: Reversed(original(self))),
        method("sampler", lambda original, self: type(original(self))(original(self).pool)),
    ],
    "Task.instances": [ignored("instances", [])],
    "Task.from_config": [method("from_config", lambda original, cls, config, **options: Task(config, **options))],
    "Task.count_bytes": [returning(Task, "count_bytes", lambda number: number + 1)],
    "Task.count_words": [returning(Task, "count_words", lambda number: number + 1)],
    "Task.download": [
        ignored("download"),
        method("download", lambda original, self, dataset_kwargs=None: original(self)),
    ],
    **{f"Task.has_{kind}_docs": [returning(Task, f"has_{kind}_docs", lambda has: not has)]
       for kind in ("training", "validation", "test")},
    **{f"Task.{kind}_docs": [method(f"{kind}_docs", raw_docs)] for kind in ("training", "validation", "test")},
    "Task.fewshot_docs": [method("fewshot_docs", lambda original, self: self.eval_docs)],
    "Task.get_docs": [
        method("get_docs", lambda original, self, split=None: original(self)),
        method("get_docs", lambda original, self, split=None: original(self, split or self.config.training_split)),
    ],
    "Task.doc_iterator": [
        method("doc_iterator", lambda original, self, **options: enumerate(d for _, d in original(self, **options))),
        method("doc_iterator", lambda original, self, limit=None, **options: original(self, **options)),
        method("doc_iterator", lambda original, self, rank=0, **options: original(self, **options)),
        method("doc_iterator", lambda original, self, samples=None, **options: original(self, **options)),
    ],
    "Task.fewshot_context": [
        method("fewshot_context", lambda original, self, doc, num_fewshot, *a, **k: original(self, doc, 0, *a, **k)),
        method("fewshot_context", lambda original, self, doc, num_fewshot, *a, **k: original(self, doc, num_fewshot)),
    ],
    "Task.construct_requests": [
        returning(Task, "construct_requests", first_of),
        method("construct_requests", lambda original, self, *args, metadata=None, **k: original(self, *args, **k)),
    ],
    "Task.build_all_requests": [
        returning(Task, "build_all_requests", first_of),
        method("build_all_requests", lambda original, self, cache_requests=False, **k: original(self, **k)),
    ],
    **{
        f"Task.{name}": [
            method(name, lambda original, self, doc, spec=None: original(self, doc)),
            method(name, lambda original, self, doc, spec=None: None if spec is None else original(self, doc, spec)),
        ]
        for name in ("doc_to_text", "doc_to_choice", "doc_to_target", "doc_to_image", "doc_to_audio")
    },
    "Task.apply_filters": [
        method("apply_filters", lambda original, self, *given: {"none": []} if given else original(self)),
        method("apply_filters", lambda original, self, *given: original(self, *given) if given else None),
    ],
    "Task.process_instances": [
        method("process_instances", lambda original, self, *given: [] if given else original(self)),
        method("process_instances", lambda original, self, *given: original(self, *given) if given else []),
    ],
    "Task.process_results": [
        ignored("process_results"),
        not_called("process_results"),
    ],
    "Task.aggregate": [
        method("aggregate", lambda original, self, *given, **k: ({}, 0) if given else original(self, **k)),
        method("aggregate", lambda original, self, *given, **k: original(self, *given, **k) if given else ({}, 0)),
    ],
    "Task.aggregation": [
        returning(Task, "aggregation", lambda functions: {}),
        not_called("aggregation"),
    ],
    "Task.higher_is_better": [
        returning(Task, "higher_is_better", lambda better: {name: not higher for name, higher in better.items()})
    ],
    "Task.get_config": [ignored("get_config")],
    "Task.set_config": [
        ignored("set_config"),
        method("set_config", lambda original, self, key, value, update=False: original(self, key, value)),
    ],
    "Task.override_metric": [ignored("override_metric")],
    "Task.set_repeats": [ignored("set_repeats")],
    "Task.set_num_fewshot": [
        ignored("set_num_fewshot"),
        method("set_num_fewshot", lambda original, self, number: self.set_config("num_fewshot", number)),
    ],
    "Task.set_fewshot_seed": [ignored("set_fewshot_seed")],
    "Task.dump_config": [method("dump_config", lambda original, self: self.config.to_dict())],
    "Task.process_doc": [not_called("process_doc")],
}  # fmt: skip


# Running the tests of a row with a mutation.


OPTIONS = ["-q", "-p", "no:cacheprovider", "--tb=no", "--assert=plain", "-m", "", "-W", "ignore::pytest.PytestWarning"]


class Outcomes:
    """A plugin of pytest that keeps which tests failed, parametrized ones as one."""

    def __init__(self) -> None:
        self.failed: dict[str, bool] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.partition("[")[0].rpartition("::")[2]
        self.failed[name] = self.failed.get(name, False) or report.failed


def run_tests(nodes: list[str], mutation: Mutation | None) -> dict[str, bool]:
    """Which of the tests fail once the mutation is made, in a child process."""
    with tempfile.TemporaryFile("w+") as answer:
        child = os.fork()
        if child == 0:
            code = 3
            try:
                silence = os.open(os.devnull, os.O_WRONLY)
                os.dup2(silence, 1)
                os.dup2(silence, 2)
                if mutation is not None:
                    mutation()
                outcomes = Outcomes()
                code = pytest.main([*OPTIONS, *nodes], plugins=[outcomes])
                json.dump(outcomes.failed, answer)
                answer.flush()
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        answer.seek(0)
        text = answer.read()
    if code not in (0, 1) or not text:
        raise SystemExit(f"the tests could not be run ({code}): {' '.join(nodes)}")
    failed: dict[str, bool] = json.loads(text)
    return failed


def check_row(row: str, nodes: list[str]) -> tuple[list[int], list[str]]:
    """The numbers of the mutations that no test notices, and the tests that notice none of them."""
    outcomes = [run_tests(nodes, mutation) for mutation in MUTATIONS[row]]
    unnoticed = [number for number, failed in enumerate(outcomes, start=1) if not any(failed.values())]
    blind = [name for name in outcomes[0] if not any(failed.get(name) for failed in outcomes)]
    return unnoticed, blind


def main(argv: list[str]) -> int:
    """Break the rows, and say which mutations no test notices."""
    parser = argparse.ArgumentParser(description="Check that the tests of the specification fail where it is broken.")
    parser.add_argument("rows", nargs="*", help="rows, such as Task.sampler; all by default")
    parser.add_argument("--tests", action="store_true", help="also list tests that notice none of a row's mutations")
    options = parser.parse_args(argv)
    nodes = spec_coverage.covering_nodes()
    rows = options.rows or spec_coverage.known_names()
    unknown = [row for row in rows if row not in MUTATIONS]
    if unknown:
        print(f"no mutation of {', '.join(unknown)}", file=sys.stderr)
        return 2
    os.chdir(spec_coverage.ROOT)
    for module in ("datasets", "hypothesis", "multiform.run"):  # once, and not in every child
        importlib.import_module(module)
    everything = sorted({node for row in rows for node in nodes[row]})
    failing = [name for name, failed in run_tests(everything, None).items() if failed]
    if failing:
        print(f"these tests fail without any mutation: {', '.join(failing)}", file=sys.stderr)
        return 2
    survived = 0
    for row in rows:
        unnoticed, blind = check_row(row, nodes[row])
        survived += bool(unnoticed)
        if unnoticed:
            print(
                f"{row}: no test notices mutation {', '.join(map(str, unnoticed))} of {len(MUTATIONS[row])}", flush=True
            )
        if options.tests and blind:
            print(f"{row}: notices nothing: {', '.join(blind)}", flush=True)
    print(f"{len(rows) - survived} of {len(rows)} rows have tests that fail once they are broken")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
