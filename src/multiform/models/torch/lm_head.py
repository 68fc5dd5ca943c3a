"""The LM head: the projection onto the vocabulary, computed only at the positions that are needed."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from multiform.models.torch.device import device_of
from multiform.models.torch.plain import accepted, parameters

#: Logits that are in memory at once: 128 MiB in float32; on a CPU, as much as the allocator reuses.
ELEMENTS = 2**25
CPU_ELEMENTS = 2**22

#: In matrix products of that many rows or more, a row has the same bits however many there are; with fewer, a CPU
#: sums in another order.
STABLE_ROWS = 16

#: Settings with which a model changes its logits after the projection, and their neutral values.
SCALINGS: dict[str, tuple[Any, ...]] = {
    "final_logit_softcapping": (None,),
    "logit_softcapping": (None,),
    "logits_soft_cap": (None,),
    "logit_scale": (None, 1.0),
    "logits_scaling": (None, 1.0),
    "lm_head_multiplier": (None, 1.0),
    "output_multiplier_scale": (None, 1.0),
}


class LMHead:
    """Computes a causal model's logits at chosen positions.

    The projection onto the vocabulary is a fifth of a small model's work and most of its memory,
    and a log-likelihood needs it at a few positions only. Models that do more than one matrix
    product between hidden states and logits are left to compute all logits themselves.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        #: Determined at once: in the middle of a forward pass, the model's attention would be replaced.
        self.separable = self._is_separable()

    def _is_separable(self) -> bool:
        """Whether the logits are the output embedding of the base model's last hidden state."""
        config = self.model.config.get_text_config()
        if any(getattr(config, name, values[0]) not in values for name, values in SCALINGS.items()):
            return False
        if self.model.base_model is self.model or self.model.get_output_embeddings() is None:
            return False
        return self._agrees()

    def hidden_states(self, rows: Tensor, positions: Tensor, **inputs: Any) -> Tensor:
        """What `logits` takes, one line for each (row, position): hidden states, or logits where not separable."""
        states, _ = self.run(**inputs)
        # A model that is spread over several devices has its last layers on another one than its first.
        selected: Tensor = states[rows.to(states.device), positions.to(states.device)]
        return selected

    def run(self, **inputs: Any) -> tuple[Tensor, Any]:
        """The hidden states (row, token, dimension), or logits where not separable, and all that the model returned.

        Inputs that the model does not take are left out, as some architectures lack even the common ones.
        """
        part = self._part
        output = part(**accepted(part.forward, **inputs))
        return output.last_hidden_state if self.separable else output.logits, output

    def takes(self, name: str) -> bool:
        """Whether `run` passes an input of that name on to the model."""
        return name in parameters(self._part.forward)

    @property
    def _part(self) -> PreTrainedModel:
        """The part of the model that is run: without its last projection, where that is separable."""
        return self.model.base_model if self.separable else self.model

    def logits(self, states: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Float32 logits of lines from `hidden_states`, in pieces, each with the number of its first line."""
        elements = CPU_ELEMENTS if states.device.type == "cpu" else ELEMENTS
        chunks = max(1, ceil(len(states) / max(1, elements // self._vocabulary)))
        size = max(1, ceil(len(states) / chunks))  # all about as large: a small one would be rounded differently
        for start in range(0, len(states), size):
            chunk = states[start : start + size]
            yield start, (self._project(chunk) if self.separable else chunk).float()

    @property
    def max_tokens(self) -> int:
        """The number of tokens in a forward pass for which all logits take 1 GiB."""
        return 2**28 // self._vocabulary

    @property
    def _vocabulary(self) -> int:
        return int(self.model.config.get_text_config().vocab_size)

    def _hidden(self, **inputs: Any) -> Tensor:
        base = self.model.base_model
        state: Tensor = base(**accepted(base.forward, **inputs)).last_hidden_state
        return state

    def _all_logits(self, **inputs: Any) -> Tensor:
        logits: Tensor = self.model(**accepted(self.model.forward, **inputs)).logits
        return logits

    def _project(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.model.get_output_embeddings()(hidden)
        return logits

    @torch.inference_mode()
    def _agrees(self) -> bool:
        # A model may change its logits in a way that no list foresees, so compare once.
        ids = torch.arange(8, device=device_of(self.model))[None]
        try:
            projected = self._project(self._hidden(input_ids=ids, use_cache=False)).float()
        except (AttributeError, TypeError, ValueError, RuntimeError):
            return False
        full = self._all_logits(input_ids=ids, use_cache=False).float()
        tolerance = 1e-4 if self.model.dtype == torch.float32 else 2e-2
        return projected.shape == full.shape and bool(
            (projected - full).abs().max() <= tolerance * full.abs().max().clamp(min=1e-6)
        )
