"""Matrix products of linear layers by oneDNN, which are faster than torch's own on some CPUs.

torch computes products in float32 with MKL, which uses AVX2 on CPUs that are not Intel's, even if they have AVX-512:
less than half of what such a CPU can do. oneDNN, which comes with torch as well, uses what the CPU has. It takes the
weights as they are, without a copy, and sums in another order than lm-eval's products.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from multiform.errors import UsageError
from multiform.models.torch.device import device_of

#: Values of the model argument `matmul`.
MATMULS = ("torch", "onednn")
_CPUINFO = Path("/proc/cpuinfo")


def is_mkl_slow() -> bool:
    """Whether MKL does not use what this CPU has, and oneDNN does."""
    try:
        cpu = _CPUINFO.read_text().partition("\n\n")[0]  # the first core
    except OSError:
        return False
    return "avx512f" in cpu and "GenuineIntel" not in cpu and torch._C.has_mkl


def use_onednn(model: PreTrainedModel) -> None:
    """Have the linear layers of a model on a CPU compute in float32 by oneDNN; in half precision they do already."""
    is_available = torch._C._has_mkldnn and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    if device_of(model).type != "cpu" or not is_available:
        raise UsageError("matmul=onednn needs a CPU, and torch with oneDNN", hint="leave it out")
    for layer in model.modules():
        # Layers of other packages, such as quantized ones, and weights that are moved for each pass compute as they do.
        if type(layer) is nn.Linear and layer.weight.dtype is torch.float32 and "forward" not in vars(layer):
            layer.forward = partial(_linear, layer)  # type: ignore[method-assign]


def _linear(layer: nn.Linear, inputs: Tensor) -> Tensor:
    if torch.is_grad_enabled() or not inputs.numel() or not inputs.is_cpu or inputs.dtype is not torch.float32:
        return functional.linear(inputs, layer.weight, layer.bias)
    output: Tensor = torch.ops.mkldnn._linear_pointwise(inputs, layer.weight, layer.bias, "none", [], "")
    return output
