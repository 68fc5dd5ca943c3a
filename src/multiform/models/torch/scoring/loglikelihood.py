"""Log-likelihoods as sums of token log-probabilities, in whatever order the tokens are computed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from multiform.models.torch.sequences import Pair
from multiform.requests import LLOutput, Response


class LoglikelihoodSums:
    """The sums so far over the tokens of each pair's continuation."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self.lengths = [len(pair.tokens) - pair.start for pair in pairs]
        self.missing = np.array(self.lengths, dtype=np.int64)
        self.sums = np.zeros(len(pairs))
        self.greedy = np.ones(len(pairs), dtype=bool)

    def empty(self) -> Iterator[Response[LLOutput]]:
        """The responses that need no model: an empty continuation has log-likelihood 0."""
        return ((index, LLOutput(0.0, True, 0)) for index, length in enumerate(self.lengths) if not length)

    def add(
        self, owners: NDArray[np.int64], logprobs: NDArray[np.float64], greedy: NDArray[np.bool_]
    ) -> Iterator[Response[LLOutput]]:
        """Add tokens to the pairs that own them, and return the responses of the pairs that are complete."""
        np.add.at(self.sums, owners, logprobs)
        np.logical_and.at(self.greedy, owners, greedy)
        np.subtract.at(self.missing, owners, 1)
        for owner in np.unique(owners).tolist():
            if not self.missing[owner]:
                yield owner, LLOutput(float(self.sums[owner]), bool(self.greedy[owner]), self.lengths[owner])


def token_logprobs(
    logits: Iterable[tuple[int, Tensor]], lines: NDArray[np.int64], tokens: Sequence[int]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The log-probability of each token on its line of logits, and whether it is the likeliest there.

    The logits come in pieces, each with the number of its first line.
    """
    line, token = torch.from_numpy(lines), torch.tensor(tokens)
    logprobs = torch.empty(len(tokens), dtype=torch.float64)
    greedy = torch.empty(len(tokens), dtype=torch.bool)
    for start, chunk in logits:
        in_chunk = (line >= start) & (line < start + len(chunk))
        rows, targets = (line[in_chunk] - start).to(chunk.device), token[in_chunk].to(chunk.device)
        # logsumexp is more accurate on a CPU, by 1e-5 a token; log_softmax gives lm-eval's numbers.
        logprobs[in_chunk] = chunk.log_softmax(-1)[rows, targets].double().cpu()
        greedy[in_chunk] = _is_argmax(chunk, rows, targets).cpu()
    return logprobs.numpy(), greedy.numpy()


def _is_argmax(logits: Tensor, rows: Tensor, targets: Tensor) -> Tensor:
    """Whether each target is the likeliest token of its row; of several equally likely ones, that is the first."""
    is_highest = logits[rows, targets] == logits.amax(-1)[rows]
    # On a CPU, argmax takes ten times as long as amax, so it is computed only where it can be true.
    highest = is_highest.nonzero()[:, 0]
    is_highest[highest] = logits[rows[highest]].argmax(-1) == targets[highest]
    return is_highest
