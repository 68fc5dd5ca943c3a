"""The names that documents and scripts import from lm_eval answer as lm-eval's do."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
from typing import Any

import pytest

from multiform import MultiformError, TaskConfig, compat
from multiform.compat.lm_eval.model_helpers import Collator, normalize_gen_kwargs
from multiform.compat.lm_eval.registry import get_filter, get_model, get_scorer, register_scorer
from multiform.compat.lm_eval.task import ConfigurableTask
from multiform.compat.lm_eval.task import Task as LmEvalTask
from multiform.imports import import_paths
from multiform.scoring.scorers import Scorer

#: What the documents of the specification import, and what scripts do.
PATHS = {
    "api.template": "TemplateConfig MCQTemplateConfig ClozeTemplateConfig TemplateFactory process_field",
    "config.task": "TaskConfig FewshotConfig MetricConfig FilterPipeline FilterStep ScorerConfig",
    "config.utils": "serialize_config",
    "config.group": "GroupConfig",
    "config": "TaskConfig GroupConfig FewshotConfig",
    "api.registry": "get_scorer register_scorer",
    "api.task": "TaskConfig Task ConfigurableTask GenerateTask MultipleChoiceTask LoglikelihoodTask",
    "api.instance": "Instance GenInstance LLInstance LLOutput Completion",
    "api.group": "Group ConfigurableGroup",
    "models.utils": "Collator chunks handle_stop_sequences postprocess_generated_text configure_pad_token",
}


@pytest.fixture
def installed():
    for package in ("lm_eval", "eval_framework"):
        compat.install(package, instead=True)
    yield
    for package in ("lm_eval", "eval_framework"):
        compat.uninstall(package)


@pytest.mark.parametrize("module", PATHS)
def test_import_paths_resolve(module, installed):
    found = importlib.import_module(f"lm_eval.{module}")
    assert [name for name in PATHS[module].split() if not hasattr(found, name)] == []


@pytest.mark.parametrize("path", import_paths())
def test_every_path_of_the_table_is_a_module_of_ours_or_has_all_its_names(path, installed):
    place = import_paths()[path]
    module = importlib.import_module(path)
    if isinstance(place, str):
        assert module is importlib.import_module(place)
    else:
        assert [name for name in place if getattr(module, name, None) is None] == []
        with pytest.raises(AttributeError, match="provided by Multiform, has no attribute 'nothing'"):
            _ = module.nothing


def test_the_modules_of_lm_eval_are_attributes_of_it(installed):
    import lm_eval

    assert lm_eval.tasks.TaskManager is lm_eval.evaluator.TaskManager
    assert lm_eval.api.registry.get_model is get_model
    with pytest.raises(AttributeError, match="has no attribute 'caching'"):
        _ = lm_eval.caching


def test_a_module_of_names_is_pickled_by_its_path(installed):
    module = importlib.import_module("lm_eval.api.instance")
    assert pickle.loads(pickle.dumps(module)) is module


@pytest.mark.parametrize("output_type", ["multiple_choice", "generate_until", "loglikelihood", "loglikelihood_rolling"])
def test_a_task_from_a_configuration_is_of_the_classes_that_scripts_import(config, output_type):
    task = LmEvalTask.from_config({**config, "output_type": output_type})
    assert isinstance(task, LmEvalTask)
    assert task.OUTPUT_TYPE == type(task).OUTPUT_TYPE == output_type
    assert LmEvalTask.OUTPUT_TYPE is None
    direct = ConfigurableTask(config={**config, "output_type": output_type})
    assert task.build_all_requests() == direct.build_all_requests()


def test_documents_are_processed_by_the_method_that_scripts_map(config):
    class Upper(ConfigurableTask):
        @staticmethod
        def process_doc(doc):
            return {**doc, "question": doc["question"].upper()}

    task = Upper(config=config)
    assert next(map(task._process_doc, task.dataset["test"]))["question"] == "WHAT DO BEES MAKE?"


def test_a_configuration_is_serialized_without_what_is_not_set(config):
    from multiform.compat.lm_eval.config import TaskConfig, serialize_config

    written = serialize_config(TaskConfig(**config, process_docs=len))
    assert written["process_docs"] == "builtins.len"
    assert "fewshot_split" not in written
    assert serialize_config(TaskConfig(**config, process_docs=len), keep_callable=True)["process_docs"] is len


def test_a_scorer_is_registered_and_found():
    @register_scorer("shouting")
    class Shouting(Scorer):
        pass

    assert get_scorer("shouting") is Shouting
    with pytest.raises(KeyError, match="unknown scorer 'shoting'"):
        get_scorer("shoting")


def test_unknown_names_raise_what_lm_eval_raises():
    with pytest.raises(KeyError, match="unknown filter 'lower'") as error:
        get_filter("lower")
    assert isinstance(error.value, MultiformError)
    with pytest.raises(ValueError, match="no model 'gpt5' here"):
        get_model("gpt5")


def test_a_configuration_is_read_and_set_as_a_dict(config):
    task: Any = ConfigurableTask(config={**config, "num_fewshot": 2})
    assert task.config["num_fewshot"] == task._config["num_fewshot"] == 2
    task.config["num_fewshot"] = 1
    assert task.num_fewshot == 1
    task._config = {**config, "doc_to_text": "Q: {{question}}"}
    assert task.fewshot_context(task.eval_docs[0], num_fewshot=0) == "Q: What do bees make?"


def test_a_task_takes_its_configuration_alone(config):
    for task in (ConfigurableTask(config), ConfigurableTask(TaskConfig(**config))):
        assert task.config.doc_to_text == config["doc_to_text"]
        assert task.doc_to_text(task.eval_docs[0]) == ConfigurableTask(config=config).doc_to_text(task.eval_docs[0])


def test_an_override_of_build_qa_turn_is_refused(config):
    class Own(ConfigurableTask):
        def build_qa_turn(self, **kwargs):
            return []

    with pytest.raises(MultiformError, match="Own overrides build_qa_turn"):
        Own(config=config)


def test_requests_are_batched_and_answers_put_back():
    requests = [("aa", {"until": ["x"]}), ("bbbb", {"until": []}), ("c", {"until": ["x"]})]
    collator = Collator(requests, lambda one: -len(one[0]), lambda one: one[1], group_by="gen_kwargs")
    batches = list(collator.get_batched(n=2))
    assert [[text for text, _ in batch] for batch in batches] == [["aa", "c"], ["bbbb"]]
    assert collator.get_original([text.upper() for batch in batches for text, _ in batch]) == ["AA", "BBBB", "C"]


@pytest.mark.process
def test_a_module_runs_with_our_names_and_task_helpers_are_found(tmp_path):
    (tmp_path / "my_tasks" / "sums").mkdir(parents=True)
    (tmp_path / "my_tasks" / "sums" / "utils.py").write_text("def double(x):\n    return 2 * x\n")
    (tmp_path / "script.py").write_text(
        "import lm_eval\nfrom lm_eval.tasks import TaskManager\n"
        "TaskManager(include_path='my_tasks', include_defaults=False)\n"
        "from lm_eval.tasks.sums.utils import double\nprint(lm_eval.__multiform__, double(4))\n"
    )
    command = [sys.executable, "-m", "multiform.compat.run", "-m", "script"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (ran.stdout, ran.returncode) == ("True 8\n", 0), ran.stderr


def test_generation_settings_have_one_form():
    assert normalize_gen_kwargs({"do_sample": False, "temperature": 0.7})["temperature"] == 0.0
