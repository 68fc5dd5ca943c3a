"""Log-likelihoods added up token by token, in whatever order the tokens are computed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from multiform.inference.sequences import Pair
from multiform.requests import LLOutput, Response


class Totals:
    """The sums so far of each pair's continuation."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self.sizes = [len(pair.tokens) - pair.start for pair in pairs]
        self.missing = np.array(self.sizes, dtype=np.int64)
        self.sums = np.zeros(len(pairs))
        self.greedy = np.ones(len(pairs), dtype=bool)

    def empty(self) -> Iterator[Response[LLOutput]]:
        """The answers that need no model: an empty continuation is certain."""
        return ((index, LLOutput(0.0, True, 0)) for index, size in enumerate(self.sizes) if not size)

    def add(
        self, owners: NDArray[np.int64], logprobs: NDArray[np.float64], greedy: NDArray[np.bool_]
    ) -> Iterator[Response[LLOutput]]:
        """Add tokens to the pairs that they belong to; gives the answers of those that are complete."""
        np.add.at(self.sums, owners, logprobs)
        np.logical_and.at(self.greedy, owners, greedy)
        np.subtract.at(self.missing, owners, 1)
        for owner in np.unique(owners).tolist():
            if not self.missing[owner]:
                yield owner, LLOutput(float(self.sums[owner]), bool(self.greedy[owner]), self.sizes[owner])


def token_scores(
    logits: Iterable[tuple[int, Tensor]], places: NDArray[np.int64], tokens: Sequence[int]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Of tokens with the place of their logits: the log-probability, and whether each is the likeliest.

    The logits come in pieces, each with the place of its first line.
    """
    place, token = torch.from_numpy(places), torch.tensor(tokens)
    logprob = torch.empty(len(tokens), dtype=torch.float64)
    greedy = torch.empty(len(tokens), dtype=torch.bool)
    for start, lines in logits:
        here = (place >= start) & (place < start + len(lines))
        inside, wanted = (place[here] - start).to(lines.device), token[here].to(lines.device)
        # logsumexp is nearer to the truth on a CPU, by 1e-5 a token; log_softmax gives lm-eval's numbers.
        logprob[here] = lines.log_softmax(-1)[inside, wanted].double().cpu()
        greedy[here] = _likeliest(lines, inside, wanted).cpu()
    return logprob.numpy(), greedy.numpy()


def _likeliest(lines: Tensor, inside: Tensor, wanted: Tensor) -> Tensor:
    """Which tokens are the likeliest of their line of logits; of several, that is the first."""
    found = lines[inside, wanted] == lines.amax(-1)[inside]
    # On a CPU, to find where the highest is takes ten times as long as to find what it is.
    highest = found.nonzero()[:, 0]
    found[highest] = lines[inside[highest]].argmax(-1) == wanted[highest]
    return found
