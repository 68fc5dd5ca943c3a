"""Tiny models with random weights of large scale, so that a wrong computation shows in the numbers."""

from __future__ import annotations

import copy

import torch
import transformers
from torch import nn
from transformers import PreTrainedModel
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
)
from transformers.pytorch_utils import Conv1D

from tools.zoo import custom
from tools.zoo.configs import TOKENS, VARIANTS, tiny_config

#: How the names of models with custom code begin, and the one whose layers have the names of Llama's.
CUSTOM, LLAMA = "custom code: ", "llama with a window"
#: How the name of an encoder-decoder ends whose decoder is in the zoo by itself.
WITH_ENCODER = " (with encoder)"

#: The standard deviation of the outputs of a linear layer whose inputs have one of 1.
GAIN = 1.5


#: Parameters of the largest model; larger ones have parts that shrinking does not reach, such as image encoders.
LARGEST = 20_000_000


def architectures() -> list[str]:
    """The names of all models of the zoo: decoders, their variants, custom code, and encoder-decoders."""
    decoders = [*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, *VARIANTS]
    both = [name for name in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES if name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES]
    others = [name for name in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES if name not in both]
    with_encoder = [f"{name}{WITH_ENCODER}" for name in both]
    return sorted([*decoders, *others, *with_encoder]) + [f"{CUSTOM}{kind}" for kind in (*custom.KINDS, LLAMA)]


def zoo_model(name: str) -> PreTrainedModel:
    """A model of the zoo by its name, with random weights, in evaluation mode."""
    torch.manual_seed(7)
    if name == f"{CUSTOM}{LLAMA}":
        return scaled(custom.WindowedLlamaForCausalLM(tiny_config("llama")))
    if name.startswith(CUSTOM):
        return scaled(custom.CustomForCausalLM(custom.CustomConfig(kind=name.removeprefix(CUSTOM), **TOKENS)))
    config = tiny_config(name.removesuffix(WITH_ENCODER))
    is_decoder = config.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and not name.endswith(WITH_ENCODER)
    auto_class = transformers.AutoModelForCausalLM if is_decoder else transformers.AutoModelForSeq2SeqLM
    with torch.device("meta"):
        size = sum(parameter.numel() for parameter in auto_class.from_config(copy.deepcopy(config)).parameters())
    if size > LARGEST:
        raise ValueError(f"{size // 10**6} million parameters")
    return scaled(auto_class.from_config(config))


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
