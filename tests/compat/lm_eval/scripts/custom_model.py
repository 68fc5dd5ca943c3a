"""A model of one's own, given as an object and by the name that it is registered under.

custom_model.py TASK_FOLDER
"""

import sys

import lm_eval
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM, TemplateLM
from lm_eval.api.registry import get_model, register_model
from lm_eval.tasks import TaskManager
from lm_eval.utils import setup_logging

setup_logging("ERROR")


@register_model("vowels")
class Vowels(LM):
    """Likes vowels, and answers what it is told to."""

    def __init__(self, weight=1.0, answer="honey", batch_size=1, device=None, max_batch_size=None):
        super().__init__()
        self.weight = float(weight)
        self.answer = answer

    def loglikelihood(self, requests: list[Instance]):
        pairs = [request.args for request in requests]
        return [(self.weight * sum(text.count(v) for v in "aeiou") - len(text), "e" in text) for _, text in pairs]

    def loglikelihood_rolling(self, requests):
        return [-float(len(request.args[0])) for request in requests]

    def generate_until(self, requests):
        found = []
        for request in requests:
            context, options = request.args
            assert "until" in options
            found.append(self.answer if "bees" in context else "rain")
            self.cache_hook.add_partial("generate_until", request.args, found[-1])
        return found


class Characters(TemplateLM):
    """Scores texts character by character, each as likely as its code is low."""

    @property
    def eot_token_id(self):
        return 0

    def tok_encode(self, string, add_special_tokens=None, **kwargs):
        return [ord(letter) for letter in string]

    def _loglikelihood_tokens(self, requests, **kwargs):
        return [(-sum(tokens) / 100 - 0.01 * len(context), False) for _, context, tokens in requests]

    def loglikelihood_rolling(self, requests, disable_tqdm=False):
        return [-float(len(request.args[0])) for request in requests]

    def generate_until(self, requests, disable_tqdm=False):
        return ["in water" for _ in requests]


manager = TaskManager(include_path=sys.argv[1], include_defaults=False)


def show(results):
    for task, scores in sorted(results["results"].items()):
        print(task, {key: round(float(value), 4) for key, value in scores.items() if isinstance(value, float)})


show(lm_eval.simple_evaluate(model=Vowels(weight=2), tasks=["animals", "spelled"], task_manager=manager))
show(
    lm_eval.simple_evaluate(
        model="vowels", model_args={"weight": 0.5, "answer": "milk"}, tasks=["animals", "spelled"], task_manager=manager
    )
)
show(lm_eval.evaluate(Characters(), manager.load(["nature"]), limit=4, bootstrap_iters=0))
print(get_model("vowels").create_from_arg_string("weight=3").weight)
