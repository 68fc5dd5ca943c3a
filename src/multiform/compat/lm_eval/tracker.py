"""EvaluationTracker: writes results and samples where lm-eval's does."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from multiform.arguments import parse_arguments
from multiform.compat.lm_eval.utils import handle_non_serializable, hash_string, sanitize_list
from multiform.paths import replace_output, safe_name
from multiform.results.export import json_line, plain_json

logger = logging.getLogger("multiform")

_NAMING = ("peft", "delta", "pretrained", "model", "path", "engine")


@dataclass
class GeneralConfigTracker:
    """What is said about a run beside its scores."""

    model_source: str | None = None
    model_name: str | None = None
    model_name_sanitized: str | None = None
    system_instruction: str | None = None
    system_instruction_sha: str | None = None
    fewshot_as_multiturn: bool | None = None
    chat_template: str | None = None
    chat_template_sha: str | None = None
    total_evaluation_time_seconds: str | None = None

    def __post_init__(self) -> None:
        self._started = time.perf_counter()

    def log_experiment_args(
        self,
        model_source: str,
        model_args: str | Mapping[str, Any],
        system_instruction: str | None,
        chat_template: str | None,
        fewshot_as_multiturn: bool,
    ) -> None:
        """Take note of the model and the layout of prompts."""
        arguments = parse_arguments(model_args or None, where="model_args")
        self.model_source = model_source
        self.model_name = next((str(arguments[key]) for key in _NAMING if arguments.get(key)), "")
        self.model_name_sanitized = safe_name(self.model_name) if self.model_name else ""
        self.system_instruction, self.chat_template = system_instruction, chat_template
        self.system_instruction_sha = hash_string(system_instruction) if system_instruction else None
        self.chat_template_sha = hash_string(chat_template) if chat_template else None
        self.fewshot_as_multiturn = fewshot_as_multiturn

    def log_end_time(self) -> None:
        """Take note of how long it took."""
        self.total_evaluation_time_seconds = str(time.perf_counter() - self._started)


class EvaluationTracker:
    """Writes what `simple_evaluate` returns below a folder; nothing is sent to the hub."""

    def __init__(self, output_path: str | None = None, push_results_to_hub: bool = False, **hub: Any) -> None:
        self.output_path = output_path
        self.general_config_tracker = GeneralConfigTracker()
        self.date_id: str | None = None
        if push_results_to_hub or hub.get("push_samples_to_hub"):
            logger.warning("nothing is sent to the hub; upload the folder that output_path names")

    def save_results_aggregated(
        self, results: Mapping[str, Any], samples: Mapping[str, Sequence[Mapping[str, Any]]] | None = None
    ) -> None:
        """Write the scores, with the hashes of the samples."""
        self.general_config_tracker.log_end_time()
        self.date_id = datetime.now().isoformat().replace(":", "-")
        if not self.output_path:
            return
        hashes = {
            name: hash_string(
                "".join(sample["doc_hash"] + sample["prompt_hash"] + sample["target_hash"] for sample in task_samples)
            )
            for name, task_samples in (samples or {}).items()
        }
        kept = {key: value for key, value in results.items() if key != "samples"}
        whole = {**kept, "task_hashes": hashes, **asdict(self.general_config_tracker)}
        path = Path(self.output_path)
        single = path.suffix == ".json"
        self._write(f"{path.stem}_{self.date_id}.json" if single else f"results_{self.date_id}.json", plain_json(whole))

    def save_results_samples(self, task_name: str, samples: Sequence[Mapping[str, Any]]) -> None:
        """Write a line for each document and filter."""
        if self.output_path:
            lines = [json_line(_plain(sample)) + "\n" for sample in samples]
            self._write(f"samples_{safe_name(task_name)}_{self.date_id}.jsonl", "".join(lines))

    def _write(self, name: str, text: str) -> None:
        path = Path(str(self.output_path))
        single = path.suffix == ".json"
        folder = path.parent if single else path / (self.general_config_tracker.model_name_sanitized or "")
        with replace_output(folder / name) as file:
            file.write_text(text, encoding="utf-8", errors="backslashreplace")


def _plain(sample: Mapping[str, Any]) -> dict[str, Any]:
    """A sample as files have it: answers as texts, arguments by name."""
    arguments = {
        f"gen_args_{i}": {f"arg_{j}": value for j, value in enumerate(values)}
        for i, values in enumerate(sample["arguments"])
    }
    changed = {
        "arguments": arguments,
        "resps": sanitize_list(sample["resps"]),
        "filtered_resps": sanitize_list(sample["filtered_resps"]),
        "target": str(sample["target"]),
    }
    plain: dict[str, Any] = json.loads(json.dumps({**sample, **changed}, default=handle_non_serializable))
    return plain
