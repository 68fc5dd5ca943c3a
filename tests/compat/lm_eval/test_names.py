"""The names that documents and scripts import from lm_eval answer as lm-eval's do."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
from argparse import Namespace
from typing import Any

import pytest

from multiform import MultiformError, TaskConfig, UsageError, compat
from multiform.compat.lm_eval.config import load_yaml
from multiform.compat.lm_eval.metrics import bootstrap_stderr, mean, mean_stderr, median
from multiform.compat.lm_eval.model_helpers import (
    Collator,
    has_bos_prefix,
    maybe_truncate,
    normalize_gen_kwargs,
    resolve_max_length,
)
from multiform.compat.lm_eval.registry import (
    SAMPLER_REGISTRY,
    ContextSampler,
    FirstNSampler,
    get_filter,
    get_model,
    get_sampler,
    get_scorer,
    register_scorer,
)
from multiform.compat.lm_eval.task import ConfigurableTask
from multiform.compat.lm_eval.task import Task as LmEvalTask
from multiform.compat.paths import PATHS as TABLE
from multiform.scoring.scorers import Scorer

#: What the documents of the specification import, and what scripts do.
PATHS = {
    "api.template": "TemplateConfig MCQTemplateConfig ClozeTemplateConfig TemplateFactory process_field",
    "config.task": "TaskConfig FewshotConfig MetricConfig FilterPipeline FilterStep ScorerConfig",
    "config.utils": "serialize_config",
    "config.group": "AggMetricConfig GroupConfig",
    "config": "TaskConfig GroupConfig FewshotConfig",
    "api.registry": "get_scorer register_scorer",
    "api.task": "TaskConfig Task ConfigurableTask GenerateTask MultipleChoiceTask LoglikelihoodTask",
    "api.instance": "Instance GenInstance LLInstance LLOutput Completion",
    "api.utils": "Message maybe_delimit requires_delimiter multiturn_to_singleturn messages_to_text format_turn",
    "api.group": "Group AggMetricConfig ConfigurableGroup",
    "defaults": "default_gen_kwargs DEFAULT_MAX_LENGTH DEFAULT_MAX_GEN_TOKS DEFAULT_OTHER_SEED",
    "tasks._yaml_loader": "load_yaml",
    "models.utils": "Collator chunks handle_stop_sequences postprocess_generated_text undistribute",
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


@pytest.mark.parametrize("path", TABLE)
def test_every_path_of_the_table_is_a_module_of_ours_or_has_all_its_names(path, installed):
    place = TABLE[path]
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


def test_a_field_is_read_as_lm_eval_0_5_reads_it(installed):
    process_field = importlib.import_module("lm_eval.config.templates").process_field
    doc = {"question": "Why?", "idx": 3}
    assert process_field(doc, "{{idx + 1}}") == "4"
    assert process_field(doc, "Always answer yes.") == "Always answer yes."
    assert process_field(doc, "idx") == 3
    assert process_field(doc, ["{{idx}}", 1]) == ["3", 1]
    assert process_field(doc, None) is None


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
    assert isinstance(error.value, UsageError)
    with pytest.raises(ValueError, match="no model 'gpt5' here"):
        get_model("gpt5")
    with pytest.raises(KeyError, match="no sampling strategy"):
        get_sampler("nothing")


def test_bootstrap_stderr_takes_a_function_values_and_iterations():
    values = [0.0, 1.0, 1.0, 0.0, 1.0]
    assert bootstrap_stderr(mean, values, iters=2000) == pytest.approx(mean_stderr(values), rel=0.2)
    assert bootstrap_stderr(f=median, xs=values, iters=1000) > 0
    assert bootstrap_stderr(mean, values, 2000) == pytest.approx(
        bootstrap_stderr(lambda items: sum(items) / len(items), values, 2000)
    )


def test_a_configuration_is_read_and_set_as_a_dict(config):
    task: Any = ConfigurableTask(config={**config, "num_fewshot": 2})
    assert task.config["num_fewshot"] == task._config["num_fewshot"] == 2
    task.config["num_fewshot"] = 1
    assert task.num_fewshot == 1
    task._config = {**config, "doc_to_text": "Q: {{question}}"}
    assert task.fewshot_context(task.eval_docs[0], num_fewshot=0) == "Q: What do bees make?"


def test_a_question_with_its_answer_is_two_messages(config):
    task = ConfigurableTask(config=config)
    turn = task.build_qa_turn(q="2+2?", c=["3", "4"], a=1, gen_prefix="So:")
    assert "".join(message.to_text() for message in turn) == "2+2? So: 4\n\n"
    assert [message.to_text() for message in task.build_qa_turn(q="2+2?")] == ["2+2?"]
    assert task.resolve_field({"topic": "sums"}, "About {{topic}}.") == "About sums."
    assert task.resolve_field({}, None) is None


def test_a_task_says_whether_it_has_several_prompts_or_answers(config):
    task = ConfigurableTask(config=config)
    assert (task.multiple_input, task.multiple_target) == (0, 0)
    listed = {**config, "output_type": "generate_until", "doc_to_choice": None, "doc_to_target": "{{choices}}"}
    assert ConfigurableTask(config=listed).multiple_target == 3
    several = ConfigurableTask(config={**config, "doc_to_text": "answer", "doc_to_target": "question"})
    assert several.multiple_input == 3


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


def test_samplers_give_documents():
    docs = [{"q": number} for number in range(5)]
    assert docs[2] not in ContextSampler(docs, rnd=1).sample(4, eval_doc=docs[2])
    assert ContextSampler(docs, rnd=1).sample(2) == ContextSampler(docs).set_rnd(1).sample(2)
    assert ContextSampler(docs, fewshot_indices=[3]).sample(1) == [docs[3]]
    assert FirstNSampler(docs).sample(2, eval_doc=docs[0]) == docs[1:3]


def test_a_sampler_of_a_script_can_be_named_by_a_task(config):
    class Last(ContextSampler):
        def sample(self, n, eval_doc=None, df=None, **kwargs):
            return [doc for doc in self.df if doc != eval_doc][-n:]

    SAMPLER_REGISTRY["last"] = Last
    task = ConfigurableTask(config={**config, "fewshot_split": "test", "fewshot_config": {"sampler": "last"}})
    assert str(task.fewshot_context(task.eval_docs[0], num_fewshot=1)).startswith(
        "What is frozen water called? ice\n\n"
    )


def test_a_task_file_is_a_dict(folder, tmp_path):
    assert load_yaml(folder / "plain.yaml")["doc_to_choice"] == "choices"
    assert load_yaml(folder / "plain.yaml", recursive=False)["include"] == "animals.yaml"
    (tmp_path / "utils.py").write_text("def tidy(docs):\n    return docs\n")
    (tmp_path / "a.yaml").write_text("task: a\nprocess_docs: !function utils.tidy\n")
    assert load_yaml(tmp_path / "a.yaml")["process_docs"]([1]) == [1]
    assert load_yaml(tmp_path / "a.yaml", resolve_func=False)["process_docs"] == str(tmp_path / "utils.tidy")
    (tmp_path / "b.yaml").write_text("include: b.yaml\ntask: b\n")
    with pytest.raises(ValueError, match="Include cycle"):
        load_yaml(tmp_path / "b.yaml")


def test_requests_are_batched_and_answers_put_back():
    requests = [("aa", {"until": ["x"]}), ("bbbb", {"until": []}), ("c", {"until": ["x"]})]
    collator = Collator(requests, lambda one: -len(one[0]), lambda one: one[1], group_by="gen_kwargs")
    batches = list(collator.get_batched(n=2))
    assert [[text for text, _ in batch] for batch in batches] == [["aa", "c"], ["bbbb"]]
    assert collator.get_original([text.upper() for batch in batches for text, _ in batch]) == ["AA", "BBBB", "C"]


def test_generation_settings_and_lengths():
    assert normalize_gen_kwargs({"do_sample": False, "temperature": 0.7})["temperature"] == 0.0
    assert maybe_truncate([1, 2, 3, 4], 3, 6, shrink_gen_toks=True) == ([1, 2, 3, 4], 2)
    assert maybe_truncate([1, 2, 3, 4], 3, 5) == ([3, 4], 3)
    assert has_bos_prefix("<s>Hello", ["<s>", "<bos>"])
    assert resolve_max_length(Namespace(text_config=Namespace(n_ctx=99), n_positions=7)) == 99


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
