"""Tasks of one's own: a configuration as a dict, a subclass, and a metric, an aggregation and a filter that go along.

custom_task.py ROWS.jsonl
"""

import sys

import lm_eval
from lm_eval.api.filter import Filter
from lm_eval.api.instance import Instance
from lm_eval.api.metrics import mean
from lm_eval.api.model import LM
from lm_eval.api.registry import register_aggregation, register_filter, register_metric
from lm_eval.api.task import ConfigurableTask
from lm_eval.tasks import TaskManager
from lm_eval.utils import setup_logging

setup_logging("ERROR")
rows = sys.argv[1]
dataset = {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": rows}}, "test_split": "test"}


class Echo(LM):
    """Says the last word of what it is asked."""

    def loglikelihood(self, requests):
        return [(-float(len(request.args[1])), False) for request in requests]

    def loglikelihood_rolling(self, requests):
        return [-float(len(request.args[0])) for request in requests]

    def generate_until(self, requests):
        return [f" {request.args[0].split()[-2]} honey " for request in requests]


@register_aggregation("largest")
def largest(items):
    return max(items)


@register_metric(metric="overlap", higher_is_better=True, output_type="generate_until", aggregation="largest")
def overlap(references, predictions, **kwargs):
    return sum(word in predictions[0] for word in references[0].split()) / len(references[0].split())


@register_filter("shout")
class Shout(Filter):
    def __init__(self, mark="!"):
        self.mark = mark

    def apply(self, resps, docs):
        return [[text.strip() + self.mark for text in texts] for texts in resps]


described = {
    "task": "described",
    **dataset,
    "output_type": "generate_until",
    "doc_to_text": "{{question}} Answer:",
    "doc_to_target": "{{choices[answer]}}",
    "generation_kwargs": {"until": ["\n"]},
    "metric_list": [{"metric": "exact_match"}, {"metric": "overlap"}],
    "filter_list": [
        {"name": "plain", "filter": [{"function": "remove_whitespace"}, {"function": "take_first"}]},
        {"name": "loud", "filter": [{"function": "shout", "mark": "?"}, {"function": "take_first"}]},
    ],
}


class Shortest(ConfigurableTask):
    """Is the right choice the shortest one? Two kinds of requests, scores of its own."""

    VERSION = 3

    def __init__(self, config=None):
        super().__init__(config={"task": "shortest", **dataset, "metadata": {"version": self.VERSION}})

    def doc_to_text(self, doc):
        return f"{doc['question']} It is"

    def doc_to_target(self, doc):
        return " " + doc["choices"][doc["answer"]]

    def construct_requests(self, doc, ctx, apply_chat_template=False, chat_template=None, **kwargs):
        scored = [
            Instance(request_type="loglikelihood", doc=doc, arguments=(ctx, f" {choice}"), idx=i, **kwargs)
            for i, choice in enumerate(doc["choices"])
        ]
        written = Instance(request_type="generate_until", doc=doc, arguments=(ctx, {"until": ["."]}), idx=9, **kwargs)
        return [*scored, written]

    def process_results(self, doc, results):
        *scored, text = results
        best = max(range(len(scored)), key=lambda i: scored[i][0])
        return {"acc": float(best == doc["answer"]), "length": len(text), "pair": (best, doc["answer"])}

    def aggregation(self):
        return {"acc": mean, "length": max, "pair": lambda pairs: sum(a == b for a, b in pairs)}

    def higher_is_better(self):
        return {"acc": True, "length": False, "pair": True}


class Doubled(ConfigurableTask):
    """Adds a score to those of its metrics."""

    def process_results(self, doc, results):
        found = super().process_results(doc, results)
        return {**found, "twice": 2 * found["acc"]}

    def aggregation(self):
        return {**super().aggregation(), "twice": mean}

    def higher_is_better(self):
        return {**super().higher_is_better(), "twice": True}


choices = {
    "task": "doubled",
    **dataset,
    "output_type": "multiple_choice",
    "doc_to_text": "{{question}}",
    "doc_to_choice": "{{choices}}",
    "doc_to_target": "answer",
    "metric_list": [{"metric": "acc"}],
}

results = lm_eval.simple_evaluate(
    model=Echo(),
    tasks=[described, Shortest(), Doubled(config=choices)],
    task_manager=TaskManager(include_defaults=False),
    bootstrap_iters=50,
)
for task, scores in sorted(results["results"].items()):
    for key, value in sorted(scores.items()):
        print(task, key, round(float(value), 4) if not isinstance(value, str) else value)
print(sorted(results["versions"].items()), sorted(results["higher_is_better"].items()))
print(results["samples"]["shortest"][1]["resps"], results["samples"]["shortest"][1]["arguments"])
