"""The in-place layers against those of transformers: `python -m benchmarks.layers` prints the CPU time of both.

They are worth their code only where they save more than 5 %.
"""

from __future__ import annotations

import random
import statistics
import time
from array import array
from collections.abc import Callable

import torch
import transformers

from multiform.models.torch.counters import Counters
from multiform.models.torch.decode.shared import SharedPrefixBatch
from multiform.models.torch.device import hold_memory
from multiform.models.torch.forward import Forward, Mode
from multiform.models.torch.lm_head import LMHead
from multiform.models.torch.scoring.by_plan import score_by_plan
from multiform.models.torch.sequences import Pair

ROUNDS = 9
VOCABULARY = 49152
#: The shape of SmolLM2-135M, and one with a third of its width.
SHAPES = {"135 M parameters": (576, 1536, 30, 9, 3), "20 M parameters": (192, 512, 30, 3, 1)}


def main() -> None:
    torch.set_num_threads(1)
    hold_memory()
    print("| model | scoring: transformers / in place | decoding: transformers / in place |\n|---|---|---|")
    for name, (hidden, intermediate, layers, heads, kv_heads) in SHAPES.items():
        config = transformers.LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=hidden,
            intermediate_size=intermediate,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=kv_heads,
            tie_word_embeddings=True,
        )
        head = LMHead(transformers.LlamaForCausalLM(config).eval())
        print(f"| {name} | {_ratio(head, _score):.3f} | {_ratio(head, _decode):.3f} |", flush=True)


def _ratio(head: LMHead, work: Callable[[Forward], None]) -> float:
    """The median over rounds of how many times as long the layers of transformers take; the two take turns."""
    ratios = []
    for _ in range(ROUNDS + 1):
        seconds = []
        for mode in (Mode.TREE_ATTENTION, Mode.STANDARD_LAYERS):
            start = time.process_time()
            work(Forward(head, mode))
            seconds.append(time.process_time() - start)
        ratios.append(seconds[0] / seconds[1])
    return statistics.median(ratios[1:])


def _score(forward: Forward) -> None:
    """Five questions with four texts each, after the same examples."""
    numbers = random.Random(1)
    examples = _tokens(numbers, 250)
    questions = [[*examples, *_tokens(numbers, 80)] for _ in range(5)]
    pairs = [Pair(array("i", [*question, *_tokens(numbers, 5)]), 330) for question in questions for _ in range(4)]
    list(score_by_plan(forward, pairs, size=512, budget=2**31, counters=Counters()))


@torch.inference_mode()
def _decode(forward: Forward) -> None:
    """Twenty tokens of 16 sequences after the same examples."""
    numbers = random.Random(1)
    examples = _tokens(numbers, 100)
    batch = SharedPrefixBatch(forward, Counters(), size=512)
    batch.prefill([[*examples, *_tokens(numbers, 5)] for _ in range(16)], [100] * 16)
    for _ in range(20):
        batch.decode(_tokens(numbers, 16))


def _tokens(numbers: random.Random, count: int) -> list[int]:
    return [numbers.randrange(3, VOCABULARY) for _ in range(count)]


if __name__ == "__main__":
    main()
