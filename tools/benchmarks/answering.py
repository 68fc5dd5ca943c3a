"""A model of either side, how it answers the requests of a workload, and whether both sides answer alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any, TypeAlias

#: lm-eval's own way to find a batch size takes several times as long as its whole run with this one.
LM_EVAL_BATCH = 8
#: How far log-likelihoods should be apart at most for each token: about the error of float32's log-softmax.
PER_TOKEN = 3e-5
#: Beyond this it is no rounding.
WRONG = 1e-4

#: Requests: a context with a continuation or with generation arguments.
Requests: TypeAlias = Sequence[Sequence[Any]]
#: Log-likelihood and greedy flag of each request; or the text that was written.
Answer: TypeAlias = Callable[[Requests], list[Any]]
#: The backbone, so that what goes through it can be counted, and what answers.
Side: TypeAlias = tuple[Any, Answer]


def multiform_answer(model: Any) -> Answer:
    """A model of Multiform as a function from requests to answers."""
    from multiform.requests import GenerationRequest, LoglikelihoodRequest

    def answer(requests: Requests) -> list[Any]:
        if isinstance(requests[0][1], str):
            scores = dict(model.loglikelihood([LoglikelihoodRequest(*request) for request in requests]))
            return [[scores[i].loglikelihood, scores[i].is_greedy] for i in range(len(requests))]
        completions = dict(model.generate([GenerationRequest.of(*request) for request in requests]))
        return [completions[i].text for i in range(len(requests))]

    return answer


def lm_eval_answer(model: Any) -> Answer:
    """A model of lm-eval as such a function."""
    from lm_eval.api.instance import Instance

    def answer(requests: Requests) -> list[Any]:
        scoring = isinstance(requests[0][1], str)
        kind = "loglikelihood" if scoring else "generate_until"
        asked = [Instance(kind, {}, tuple(request), i) for i, request in enumerate(requests)]
        if scoring:
            return [[float(score), bool(greedy)] for score, greedy in model.loglikelihood(asked, disable_tqdm=True)]
        return list(model.generate_until(asked, disable_tqdm=True))

    return answer


def multiform_side(model: str, device: str = "cpu", dtype: str = "float32") -> Side:
    """Multiform's `hf` model, which finds out its batch size by itself."""
    from multiform.models.hf.model import HFModel

    loaded = HFModel(model, dtype=dtype, device=device)
    return loaded.model, multiform_answer(loaded)


def lm_eval_side(model: str, device: str = "cpu", dtype: str = "float32", batch_size: int = LM_EVAL_BATCH) -> Side:
    """lm-eval's `hf` model."""
    from lm_eval.models.huggingface import HFLM

    loaded = HFLM(pretrained=model, batch_size=batch_size, dtype=dtype, device=device)
    return loaded.model, lm_eval_answer(loaded)


SIDES: dict[str, Callable[..., Side]] = {"multiform": multiform_side, "lm-eval": lm_eval_side}


class Count:
    """Counts the tokens that go through a model, padding included, as its embedding sees them."""

    def __init__(self, model: Any) -> None:
        self.read = self.written = self.passes = 0
        model.get_input_embeddings().register_forward_pre_hook(self._see)

    def _see(self, module: Any, inputs: tuple[Any, ...]) -> None:
        tokens = inputs[0]
        self.passes += 1
        if tokens.shape[-1] == 1:
            self.written += tokens.numel()
        else:
            self.read += tokens.numel()


def tree_nodes(sequences: Iterable[Sequence[int]]) -> int:
    """The distinct prefixes of token sequences: what has to be computed at least.

    >>> tree_nodes([[1, 2, 3], [1, 2, 4], [1, 2]])
    4
    """
    # Sorted, a sequence shares with the one before it all that it shares with any of them.
    nodes = 0
    before: list[int] = []
    for tokens in sorted(map(list, sequences)):
        shared = next((i for i, (a, b) in enumerate(zip(before, tokens, strict=False)) if a != b), None)
        nodes += len(tokens) - (min(len(before), len(tokens)) if shared is None else shared)
        before = tokens
    return nodes


def model_inputs(tokenizer: Any, requests: Sequence[Sequence[Any]]) -> tuple[list[list[int]], list[int]]:
    """The tokens that a model has to read for each request, and how many of its answer are scored.

    A continuation is what the whole has beyond the context; its last token is never read.
    """
    inputs, scored = [], []
    for context, asked in requests:
        if not isinstance(asked, str):
            inputs.append(tokenizer(context, add_special_tokens=False)["input_ids"])
            scored.append(0)
            continue
        kept = context.rstrip()
        both = tokenizer(context + asked, add_special_tokens=False)["input_ids"]
        first = len(tokenizer(kept, add_special_tokens=False)["input_ids"])
        inputs.append(both[:-1])
        scored.append(len(both) - first)
    return inputs, scored


def differences(
    requests: Sequence[Sequence[Any]], ours: Sequence[Any], theirs: Sequence[Any], scored: Sequence[int]
) -> list[str]:
    """What cannot be rounding, in words; nothing where both sides agree."""
    if len(ours) != len(theirs):
        return [f"{len(ours)} answers against {len(theirs)}"]
    if not isinstance(requests[0][1], str):
        return [f"text {i}: {a!r} != {b!r}" for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b]
    found = []
    for i, ((mine, my_flag), (other, flag)) in enumerate(zip(ours, theirs, strict=True)):
        if my_flag != flag:
            found.append(f"greedy flag {i}: {my_flag} != {flag}")
        if not abs(mine - other) <= WRONG * max(1, scored[i]):
            found.append(f"log-likelihood {i}: {mine:.6f} != {other:.6f} with {scored[i]} tokens")
    if picks(requests, ours) != picks(requests, theirs):
        found.append("picks differ")
    return found


def picks(requests: Sequence[Sequence[Any]], answers: Sequence[Any]) -> list[int]:
    """The likeliest continuation of each context."""
    made = []
    for _, group in groupby(range(len(requests)), key=lambda i: requests[i][0]):
        scores = [answers[i][0] for i in group]
        made.append(scores.index(max(scores)))
    return made


def errors(ours: Sequence[Any], theirs: Sequence[Any], scored: Sequence[int]) -> list[float]:
    """The differences of log-likelihoods per token."""
    return [abs(a[0] - b[0]) / max(1, n) for a, b, n in zip(ours, theirs, scored, strict=True)]
