"""A model of either side, and how it answers the requests of a workload."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

#: lm-eval's own way to find a batch size takes several times as long as its whole run with this one.
LM_EVAL_BATCH = 8

#: Log-likelihood, greedy flag and number of tokens; or the text that was written.
Answers: TypeAlias = list[Any]
#: The backbone, so that what goes through it can be counted, and what answers.
Side: TypeAlias = tuple[Any, Callable[[Sequence[Sequence[Any]]], Answers]]


def multiform_side(model: str, device: str = "cpu") -> Side:
    """Multiform's `hf` model, which finds out its batch size by itself."""
    from multiform.models.hf.model import HFModel
    from multiform.requests import GenerationRequest, LoglikelihoodRequest

    loaded = HFModel(model, dtype="float32", device=device)

    def answer(requests: Sequence[Sequence[Any]]) -> Answers:
        if isinstance(requests[0][1], str):
            asked = [LoglikelihoodRequest(*request) for request in requests]
            scores = dict(loaded.loglikelihood(asked))
            return [[scores[i].loglikelihood, scores[i].is_greedy] for i in range(len(asked))]
        written = dict(loaded.generate([GenerationRequest.of(*request) for request in requests]))
        return [written[i].text for i in range(len(requests))]

    return loaded.model, answer


def lm_eval_side(model: str, device: str = "cpu") -> Side:
    """lm-eval's `hf` model."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    loaded = HFLM(pretrained=model, batch_size=LM_EVAL_BATCH, dtype="float32", device=device)

    def answer(requests: Sequence[Sequence[Any]]) -> Answers:
        scoring = isinstance(requests[0][1], str)
        kind = "loglikelihood" if scoring else "generate_until"
        asked = [
            Instance(request_type=kind, doc={}, arguments=tuple(request), idx=i) for i, request in enumerate(requests)
        ]
        if scoring:
            return [[float(score), bool(greedy)] for score, greedy in loaded.loglikelihood(asked, disable_tqdm=True)]
        return list(loaded.generate_until(asked, disable_tqdm=True))

    return loaded.model, answer


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
