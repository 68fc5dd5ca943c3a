"""Prompts by name: ``qa-basic:q-newline-a``, or an entry of a YAML file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from multiform.compat.lm_eval.utils import apply_template, pattern_match
from multiform.config.prompts import load_prompt

PROMPT_REGISTRY: dict[str, dict[str, str]] = {
    "qa-basic": {
        "question-newline-answer": "Question: {{question}}\nAnswer:",
        "q-newline-a": "Q: {{question}}\nA:",
    },
}


class PromptString:
    """A prompt of a YAML file, with `doc_to_text` and `doc_to_target`."""

    def __init__(self, prompt_string: Mapping[str, str]) -> None:
        self.prompt_string = prompt_string

    def apply(self, doc: Mapping[str, Any]) -> list[str]:
        """The text and the target of a document."""
        if "doc_to_choice" in self.prompt_string:
            raise NotImplementedError("a prompt with doc_to_choice is not applied here: name it with use_prompt")
        return [apply_template(self.prompt_string[key], doc) for key in ("doc_to_text", "doc_to_target")]


def get_prompt(prompt_id: str, dataset_name: str | None = None, subset_name: str | None = None) -> Any:
    """The prompt of ``category:name``: a template, or a `PromptString` of a YAML file.

    >>> get_prompt("qa-basic:q-newline-a")
    'Q: {{question}}\\nA:'
    """
    category, name = _parts(prompt_id)
    if category == "promptsource" or category.endswith(".yaml"):
        folder = Path()
        prompt = load_prompt(prompt_id, folder=folder, dataset_path=dataset_name, dataset_name=subset_name)
        return PromptString(prompt)
    if name not in PROMPT_REGISTRY.get(category, {}):
        known = [f"{category_name}:{other}" for category_name, prompts in PROMPT_REGISTRY.items() for other in prompts]
        raise ValueError(f"no prompt {prompt_id!r}: there are {', '.join(known)}")
    return PROMPT_REGISTRY[category][name]


def load_prompt_list(
    use_prompt: str,
    dataset_name: str | None = None,
    subset_name: str | None = None,
    yaml_path: str | None = None,
    **kwargs: Any,
) -> list[str]:
    """The names of the prompts of a YAML file that a pattern matches, each with its file."""
    category, pattern = _parts(use_prompt)
    if not category.endswith(".yaml"):
        raise ValueError(f"Unknown prompt category: {category}")
    file = (Path(yaml_path or "") / category).resolve() if yaml_path is not None else Path(category)
    prompts = yaml.safe_load(file.read_text(encoding="utf-8"))["prompts"]
    return [f"{file}:{name}" for name in pattern_match(pattern, prompts)]


def _parts(prompt_id: str) -> tuple[str, str]:
    category, _, name = prompt_id.partition(":")
    if not category or not name or ":" in name:
        raise ValueError(f"expected one ':' between the category and the name of a prompt, got {prompt_id!r}")
    return category, name
