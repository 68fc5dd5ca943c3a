"""Tiny models with random weights of large scale, so that a wrong computation shows in the numbers."""

from __future__ import annotations

import torch
import transformers
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.pytorch_utils import Conv1D

#: The standard deviation of the outputs of a linear layer whose inputs have one of 1.
GAIN = 1.5


def random_model(config: PretrainedConfig, auto_class: type = transformers.AutoModelForCausalLM) -> PreTrainedModel:
    """A model of a configuration with random weights, in evaluation mode."""
    torch.manual_seed(7)
    model = auto_class.from_config(config)  # type: ignore[attr-defined]
    return scaled(model)


@torch.no_grad()
def scaled(model: PreTrainedModel) -> PreTrainedModel:
    """The model with all matrices drawn anew: each product keeps the scale of its inputs or enlarges it."""
    torch.manual_seed(11)
    for part in model.modules():
        if isinstance(part, nn.Embedding):
            part.weight.normal_(0, 1.0)
        elif isinstance(part, nn.Linear | Conv1D):
            inputs = part.weight.shape[1] if isinstance(part, nn.Linear) else part.weight.shape[0]
            part.weight.normal_(0, GAIN * inputs**-0.5)
    for name, parameter in model.named_parameters():
        if "expert" in name and parameter.ndim == 3:
            parameter.normal_(0, GAIN * 32**-0.5)
    model.tie_weights()
    return model.eval()
