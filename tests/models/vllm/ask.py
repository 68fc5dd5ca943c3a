"""Runs in the environment that has vLLM: asks the model `vllm` what standard input says, and prints its outputs.

Standard input: {"arguments": {...}, "scored": [[context, continuation], ...], "rolling": [text, ...],
"generated": [[context, gen_kwargs], ...]}.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def main() -> None:
    from multiform.models.vllm.model import VLLMModel
    from multiform.requests import GenerationRequest, LoglikelihoodRequest, RollingRequest

    job: dict[str, Any] = json.load(sys.stdin)
    model = VLLMModel(**job["arguments"])
    scored = dict(model.loglikelihood([LoglikelihoodRequest(*each) for each in job["scored"]]))
    usage = model.usage()
    assert usage is not None
    rolling = dict(model.loglikelihood_rolling([RollingRequest(each) for each in job["rolling"]]))
    generated = dict(model.generate([GenerationRequest.of(*each) for each in job["generated"]]))
    outputs = {
        "scored": [[scored[i].loglikelihood, scored[i].is_greedy, scored[i].tokens] for i in sorted(scored)],
        "rolling": [[rolling[i].loglikelihood, rolling[i].tokens] for i in sorted(rolling)],
        "generated": [[generated[i].text, generated[i].truncated] for i in sorted(generated)],
        "computed": usage.prefill,
        "unshared": usage.unshared,
        "info": model.info(),
    }
    print(json.dumps(outputs))


if __name__ == "__main__":
    main()
