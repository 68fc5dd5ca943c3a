"""A filter of your own: it extracts a part of a completion before the completion is scored.

Register a function that makes a filter from the arguments in the task file. The filter gets the completions of a
document, one for each repeat, and the document.

    python examples/custom_filter.py

prints::

    exact_match,none: 0.000
    exact_match,quoted: 0.167
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from multiform import Doc, Filter, TaskConfig, evaluate, register_filter


@register_filter("quoted")
def quoted(fallback: str = "") -> Filter:
    """Keeps what stands between the first quotation marks."""

    def apply(completions: Sequence[Any], doc: Doc) -> list[Any]:
        matches = [re.search('"(.*?)"', text) for text in completions]
        return [match[1] if match else fallback for match in matches]

    return apply


CONFIG = {
    "task": "capitals_quoted",
    "dataset_path": str(Path(__file__).with_name("capitals.jsonl")),
    "test_split": "test",
    "output_type": "generate_until",
    "doc_to_text": "{{question}} Put the answer in quotation marks.",
    "doc_to_target": "answer",
    "generation_kwargs": {"max_gen_toks": 32, "until": ["\n"]},
    "metric_list": [{"metric": "exact_match"}],
    # Two pipelines: without a filter, and with ours. Each has its own key in the results.
    "filter_list": [
        {"name": "none", "filter": [{"function": "take_first"}]},
        {"name": "quoted", "filter": [{"function": "quoted", "fallback": "?"}, {"function": "take_first"}]},
    ],
}


if __name__ == "__main__":
    # The dummy model says the same to everything, and is right about one of the six countries.
    results = evaluate(model="dummy", model_args={"text": 'It is "Paris".'}, tasks=TaskConfig.from_dict(CONFIG))
    for key in ("exact_match,none", "exact_match,quoted"):
        print(f"{key}: {results['capitals_quoted'][key]:.3f}")
