"""Where the specification is silent: the requests of lm-eval 0.4.13, for every field that shapes them."""

from __future__ import annotations

from typing import Any

import pytest

from multiform.forms import Task
from multiform.requests import GenerationRequest, LoglikelihoodRequest

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

WRITING = {"output_type": "generate_until", "doc_to_choice": None, "doc_to_target": "{{choices[answer]}}"}
CASES = {
    "plain": {},
    "no_shots": {"num_fewshot": 0},
    "first_n": {"fewshot_config": {"sampler": "first_n"}},
    "description": {"description": "About {{question}}.\n\n"},
    "description_without_a_line_end": {"description": "Some facts"},
    "delimiters": {"target_delimiter": "\n", "fewshot_delimiter": "\n--\n"},
    "prefix": {"gen_prefix": "The answer is"},
    "prefix_with_a_space": {"gen_prefix": "Answer: "},
    "prefix_template": {"gen_prefix": "{{question}}:"},
    "templates": {"doc_to_text": "Q: {{question}}\nA:", "doc_to_target": "{{answer}}"},
    "list_of_choices": {"doc_to_choice": ["A", "B"], "doc_to_target": "{{answer}}"},
    "mapping_of_choices": {"doc_to_choice": {"a": "A", "b": "B"}},
    "target_as_text": {"doc_to_target": "{{choices[answer]}}"},
    "several_right_choices": {"doc_to_target": "{{[answer, 1]}}", "num_fewshot": 0},
    "mutual_information": {"metric_list": [{"metric": "acc"}, {"metric": "acc_mutual_info"}]},
    "generation": WRITING,
    "generation_kwargs": {**WRITING, "generation_kwargs": {"until": ["\n"], "temperature": 1}},
    "generation_with_several_targets": {**WRITING, "doc_to_target": "{{choices}}"},
    "generation_with_a_prefix": {**WRITING, "gen_prefix": "It is"},
    "loglikelihood": {**WRITING, "output_type": "loglikelihood", "doc_to_target": " {{choices[answer]}}"},
    "rolling": {**WRITING, "output_type": "loglikelihood_rolling", "doc_to_target": "question", "num_fewshot": 0},
    "several_inputs": {
        "doc_to_text": "{{answer}}",
        "doc_to_choice": "{{['no ' + question, 'yes ' + question]}}",
        "doc_to_target": "indeed, {{question}}",
    },
    "own_shots": {
        "fewshot_config": {
            "doc_to_text": "E: {{question}}",
            "doc_to_target": "It is {{choices[answer]}}",
            "target_delimiter": "=",
            "fewshot_delimiter": ";",
        }
    },
    "samples": {
        "fewshot_split": None,
        "fewshot_config": {
            "sampler": "first_n",
            "samples": [{"question": f"S{i}?", "choices": ["no", "yes"], "answer": 1} for i in range(3)],
        },
    },
    "no_fewshot_split": {"fewshot_split": None},
    "shots_from_the_evaluated_split": {"fewshot_split": "test", "training_split": None},
    "process_docs": {"process_docs": lambda docs: docs.map(lambda doc: {"question": doc["question"].lower()})},
    "validation_split": {"test_split": None, "validation_split": "test"},
}


def chat(messages, add_generation_prompt=True):
    turns = [f"<{message['role']}>{message['content']}" for message in messages]
    return "".join(turns) + ("<assistant>" if add_generation_prompt else "")


RUNS: dict[str, dict[str, Any]] = {
    "plain": {},
    "system": {"system_instruction": "Be brief."},
    "turns": {"apply_chat_template": True, "chat_template": chat, "fewshot_as_multiturn": True},
    "one_message": {"apply_chat_template": True, "chat_template": chat, "system_instruction": "Be brief."},
}


def arguments(request):
    """A request as lm-eval writes it down."""
    if isinstance(request, LoglikelihoodRequest):
        return (request.context, request.continuation)
    return (request.context, request.gen_kwargs) if isinstance(request, GenerationRequest) else (request.text,)


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
def test_requests_are_those_of_lm_eval(fields, changes):
    datasets = pytest.importorskip("datasets")
    tasks = pytest.importorskip("lm_eval.api.task", reason="lm-eval is not installed: pip install 'multiform[parity]'")
    datasets.disable_progress_bars()
    rows = fields["custom_dataset"]()
    splits = datasets.DatasetDict({name: datasets.Dataset.from_list(docs) for name, docs in rows.items()})
    del fields["fewshot_config"]
    config = {**fields, "custom_dataset": lambda **kwargs: splits, "num_fewshot": 2, **changes}
    for options in RUNS.values():
        theirs = tasks.ConfigurableTask(config={key: value for key, value in config.items() if value is not None})
        theirs.set_fewshot_seed(1234)
        theirs.build_all_requests(rank=0, world_size=1, **options)
        ours = Task.from_config(config).build_all_requests(**options)
        expected = [(instance.doc_id, instance.idx, *instance.args) for instance in theirs.instances]
        assert [(instance.doc_id, instance.idx, *arguments(instance.request)) for instance in ours] == expected
