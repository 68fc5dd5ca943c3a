"""simple_evaluate and evaluate have lm-eval's arguments, and what they return has its structure."""

from __future__ import annotations

import inspect

import pytest

from multiform import UsageError, evaluate
from multiform.compat.lm_eval import evaluator
from multiform.compat.lm_eval.manager import TaskManager, get_task_dict
from multiform.compat.lm_eval.models import LM
from multiform.models.foreign import LMEvalInstance as Instance

from .conftest import needs_lm_eval


class Lengths(LM):
    """Likes short texts; counts what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Instance] = []

    def loglikelihood(self, requests):
        self.asked += requests
        return [(-float(len(request.args[1])), True) for request in requests]

    def loglikelihood_rolling(self, requests):
        return [-float(len(request.args[0])) for request in requests]

    def generate_until(self, requests):
        self.asked += requests
        return [str(len(request.args[0])) for request in requests]


@pytest.fixture
def manager(folder):
    return TaskManager(include_path=folder, include_defaults=False)


@needs_lm_eval
@pytest.mark.parity
@pytest.mark.parametrize("name", ["simple_evaluate", "evaluate"])
def test_the_arguments_are_those_of_lm_eval(name):
    import lm_eval.evaluator

    theirs = inspect.signature(getattr(lm_eval.evaluator, name)).parameters.values()
    ours = inspect.signature(getattr(evaluator, name)).parameters.values()
    assert [(one.name, one.default) for one in ours] == [(one.name, one.default) for one in theirs]


def test_what_comes_back_has_the_keys_of_lm_eval(manager):
    made = evaluator.simple_evaluate(model=Lengths(), tasks=["choices"], task_manager=manager, limit=4)
    assert list(made) == [
        *("results", "groups", "group_subtasks", "configs", "versions", "n-shot", "higher_is_better", "n-samples"),
        *("config", "git_hash", "date", "pretty_env_info", "transformers_version", "lm_eval_version"),
        *("upper_git_hash", "samples"),
    ]
    assert made["results"]["plain"]["acc,none"] == 0.25
    assert made["groups"]["choices"]["sample_len"] == 8
    assert made["config"]["model"] == "Lengths"
    assert made["samples"]["plain"][0]["resps"] == [[(-7.0, True)], [(-6.0, True)], [(-7.0, True)]]


def test_samples_are_left_out_on_request_and_there_without_scores(manager):
    given = {"model": "dummy", "tasks": ["animals"], "task_manager": manager, "limit": 2}
    assert "samples" not in evaluator.simple_evaluate(**given, log_samples=False)
    kept = evaluator.simple_evaluate(**given, log_samples=False, predict_only=True)
    assert len(kept["samples"]["animals"]) == 2
    assert kept["results"]["animals"]["bypass,none"] == 999


def test_tasks_that_a_script_has_built_and_changed_run_as_they_are(manager):
    loaded = get_task_dict(["animals", "spelled"], manager)
    loaded["animals"].set_config("num_fewshot", 2)
    loaded["animals"].set_config("description", "Think.\n")
    model = Lengths()
    made = evaluator.evaluate(model, loaded, limit=1)
    assert made["n-shot"] == {"animals": 2, "spelled": 0}
    assert model.asked[0].args[0].startswith("Think.\nQuestion: ")
    assert model.asked[0].args[0].count("Answer:") == 3


def test_nested_groups_of_a_script_are_scored(manager):
    nested = manager.load_task_or_group(["choices"])
    made = evaluator.evaluate(Lengths(), nested, limit=4)
    assert made["group_subtasks"] == {"choices": ["plain", "bare"]}
    assert made["groups"]["choices"]["acc,none"] == 0.25


def test_a_model_by_name_gets_its_arguments(manager):
    made = evaluator.simple_evaluate(
        model="dummy", model_args="seed=3,text=honey", tasks=["spelled"], task_manager=manager, batch_size=2
    )
    assert made["results"]["spelled"]["exact_match,none"] == pytest.approx(1 / 6)
    assert made["config"]["model_args"] == "seed=3,text=honey"


def test_a_model_is_asked_again_unless_a_file_of_answers_is_named(manager, tmp_path):
    class Named(Lengths):
        identity = "lengths"

    given = {"tasks": ["animals"], "task_manager": manager}
    for kept, times in ((None, 2), (str(tmp_path / "answers"), 1)):
        asked = 0
        for _ in range(2):
            model = Named()
            evaluator.simple_evaluate(model=model, use_cache=kept, **given)
            asked += bool(model.asked)
        assert asked == times


def test_an_lm_also_runs_in_a_script_of_ours(folder):
    results = evaluate(model=Lengths(), tasks=["animals"], include_path=folder, limit=4)
    assert results["animals"]["acc,none"] == 0.25


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"tasks": []}, ValueError, "no tasks named"),
        ({"tasks": ["anmals"]}, UsageError, "did you mean 'animals'"),
        ({"tasks": [3]}, UsageError, "expected a task's name, configuration or object, got 3"),
        ({"model": "dumy"}, UsageError, "no model 'dumy' here; did you mean 'dummy'"),
        ({"model": "sglang"}, UsageError, "no model 'sglang' here; start its server and use --model local-completions"),
        ({"model": "hf-auto"}, UsageError, "needs the argument 'pretrained'"),
        ({"model": object()}, UsageError, "expected a model's name or a model, got an object of object"),
        ({"model": Lengths}, UsageError, "got the class Lengths"),
        ({"limit": 2, "samples": {"animals": [0]}}, UsageError, "limit and samples exclude each other"),
        ({"apply_chat_template": True, "model": Lengths()}, UsageError, "model 'Lengths' has no chat template"),
    ],
)
def test_bad_arguments_are_refused(manager, given, error, message):
    with pytest.raises(Exception, match=message) as raised:
        evaluator.simple_evaluate(**{"model": "dummy", "tasks": ["animals"], "task_manager": manager, **given})
    assert isinstance(raised.value, error) or "chat template" in message
