"""Trials of decoding: batches of sequences, against the model's own numbers for each sequence alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from multiform.models.torch.decode.alone import PrefixState, prompt_inputs
from multiform.models.torch.decode.batch import DecodeBatch, PaddedBatch
from multiform.models.torch.decode.processors import greedy_config
from multiform.models.torch.decode.shared import SharedPrefixBatch
from multiform.models.torch.device import device_of
from multiform.models.torch.forward import Forward
from multiform.models.torch.lm_head import LMHead
from multiform.models.torch.plain import plain_logits, reset_positions
from multiform.models.torch.trial.scoring import attempt, tolerance
from multiform.models.torch.trial.sequences import trial_prompts, trial_tokens
from multiform.models.torch.trial.structure import judge_each
from multiform.models.usage import Counters

#: Tokens that each sequence of a trial gets.
STEPS = 4


@dataclass(frozen=True, slots=True)
class DecodingTrial:
    """Prompts, the tokens that follow each, and the logits (step, vocabulary) that the model itself gives there.

    Where `selects_tokens` is true, logits that agree prove nothing, as in a `ScoringTrial`.
    """

    head: LMHead
    prompts: list[list[int]]
    shared: int
    tokens: list[list[int]]
    expected: list[Tensor]
    selects_tokens: bool

    def allows_shared_prefixes(self, forward: Forward, size: int) -> bool:
        """Whether sequences that share the cache of a common prefix get their own logits."""
        batch = SharedPrefixBatch(forward, Counters(), size=min(size, max(1, len(self.prompts[0]) // 3)))
        return self._agrees(batch, [self.shared, self.shared, 0])

    def allows_padded_batches(self) -> bool:
        """Whether sequences in one cache, padded at the left, get their own logits."""
        return self._agrees(PaddedBatch(self.head.model, Counters()), [0, 0, 0])

    def allows_copied_states(self) -> bool:
        """Whether `generate` gives the same logits after a copy of the state that sequences have in common."""
        if self.selects_tokens:
            return False
        shared = PrefixState(self.head.model, Counters())
        prefixes = [prompt[: self.shared] for prompt in self.prompts[:2]]
        lines = attempt(
            lambda: [
                _generated(self.head.model, prompt, shared.inputs(prefix))[1]
                for prompt, prefix in zip(self.prompts, prefixes, strict=False)
            ]
        )
        return lines is not None and all(map(self._is_close, lines, self.expected))

    def is_plain(self) -> bool:
        """Whether the numbers of `generate` are those of the plain forward pass: custom code may misuse its cache."""
        return all(
            self._is_close(plain_logits(self.head.model, [*prompt, *tokens[:-1]], last=STEPS), expected)
            for prompt, tokens, expected in zip(self.prompts, self.tokens, self.expected, strict=True)
        )

    def _agrees(self, batch: DecodeBatch, prefixes: Sequence[int]) -> bool:
        logits = None if self.selects_tokens else attempt(lambda: self._decoded(batch, prefixes))
        if logits is None:
            return False
        pairs = zip(logits, self.expected, strict=True)
        return all(self._is_close(torch.stack(lines), expected[: len(lines)]) for lines, expected in pairs)

    @torch.inference_mode()
    def _decoded(self, batch: DecodeBatch, prefixes: Sequence[int]) -> list[list[Tensor]]:
        """Decode all sequences together: the last joins when the others are under way, and the first leaves."""
        rows = [0, 1]
        reset_positions(self.head.model)
        logits = [[line] for line in batch.prefill(self.prompts[:2], prefixes[:2])]
        for step in range(STEPS - 1):
            if step == 1:
                rows.append(2)
                logits.append([batch.prefill(self.prompts[2:], prefixes[2:])[0]])
            if step == 2:
                rows = [1, 2]
                batch.keep(rows)
            last_tokens = [self.tokens[row][len(logits[row]) - 1] for row in rows]
            for row, line in zip(rows, batch.decode(last_tokens), strict=True):
                logits[row].append(line)
        return logits

    def _is_close(self, actual: Tensor, expected: Tensor) -> bool:
        scale = expected.abs().max().clamp(min=1.0)
        return bool((actual - expected.to(actual.device)).abs().max() <= tolerance(self.head.model) * scale)


def decoding_trial(head: LMHead, length: int, *, by_generate: bool) -> DecodingTrial | None:
    """The trial of sequences of up to `length` tokens, judged by the model's `generate` or its plain forward pass.

    The two agree for most models. Where they do not, as with caches that forget, `generate` is right by definition.
    None where the judge fails.
    """
    tokens = trial_tokens(head.model.config.get_text_config())
    prompts, shared = trial_prompts(max(8, length - STEPS), tokens)
    judge = _generated if by_generate else _forced
    outcome = attempt(lambda: judge_each(lambda prompt: judge(head.model, prompt), prompts))
    if outcome is None:
        return None
    judged, selects_tokens = outcome
    expected = [logits for _, logits in judged]
    return DecodingTrial(head, prompts, shared, [row for row, _ in judged], expected, selects_tokens)


@torch.inference_mode()
def _generated(
    model: PreTrainedModel, prompt: Sequence[int], state: Mapping[str, Any] | None = None
) -> tuple[list[int], Tensor]:
    """The tokens that `generate` chooses after a prompt, and the logits; a part of the prompt may be in a state."""
    reset_positions(model)
    ids = torch.tensor([list(prompt)], device=device_of(model))
    config = greedy_config(model, STEPS, pad_token_id=0)
    config.update(min_new_tokens=STEPS, return_dict_in_generate=True, output_logits=True)
    output = model.generate(**prompt_inputs(model, ids), **(state or {}), generation_config=config)
    return output.sequences[0, len(prompt) :].tolist(), torch.cat(output.logits).float()


def _forced(model: PreTrainedModel, prompt: Sequence[int]) -> tuple[list[int], Tensor]:
    """Some tokens after a prompt, and the logits by the plain forward pass."""
    tokens = list(prompt[:STEPS])
    return tokens, plain_logits(model, [*prompt, *tokens[:-1]], last=STEPS)
