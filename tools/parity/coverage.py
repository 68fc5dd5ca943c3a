"""The tasks of lm-eval whose rows are in a mirror, and which tasks of the library give the same requests.

python -m tools.parity.coverage            # a line for each dataset; --tasks for each task
"""

from __future__ import annotations

import argparse
import collections
import fnmatch
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from multiform.paths import mirror_folders
from multiform.tasks.yaml import read_yaml
from tools.parity.library import MIRROR, lm_eval_tasks, pairs
from tools.parity.theirs import COPIES, DEFAULTS

#: Why tasks of lm-eval have no form in the library, by patterns of their names.
REASONS = {
    "another prompt for the documents of a task that has a form": (
        "*_continuation", "*_generative", "mmlu_flan_*", "bbh_cot_*", "bbh_fewshot_*", "leaderboard_*", "mgsm_direct_*",
        "mgsm_en_cot_*", "ja_leaderboard_mgsm", "minerva_math*", "gsm8k_cot*", "*_llama*", "arc_challenge_chat",
        "boolq-seq2seq", "*-t5-prompt", "lambada_*_cloze_yaml", "humaneval_*", "mbpp*_instruct", "cruxeval_*_08",
        "cruxeval_*_cot", "belebele_*_prompt_*", "flores_*_prompt_[23]", "openai_mmlu_*_prompt_*", "french_bench_xnli",
        "sglue_rte", "assin_paraphrase", "asdiv_cot_llama", "bbq_generate*",
    ),
    "the questions of another task, shuffled at random or asked several times": (
        "*_robustness_*", "score_*", "metabench_*_permute",
    ),
    "some documents of a task that has a form": (
        "crows_pairs_*", "winogender_*", "arabic_leaderboard_acva_*_light", "global_mmlu_en_*", "mmmlu_*", "bbq_*ambig",
    ),
    "a degree of likeness, which is no answer": ("assin2_sts",),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Covered:
    """A task of lm-eval with rows; the form of the library with its requests, or why there is none."""

    name: str
    dataset: str
    form: str | None
    reason: str | None


def covered() -> Iterator[Covered]:
    """The tasks of lm-eval whose evaluated split is in a mirror."""
    forms = {pair.lm_eval: pair.config.form_name for pair in pairs(every=True)}
    for name, entry in lm_eval_tasks().items():
        data = {} if entry.path.suffix == ".py" else read_yaml(entry.path).data
        path, config = _dataset(data)
        split = data.get("test_split") or data.get("validation_split")
        if path is not None and "group" not in data and (config, split) in _rows(path):
            form = forms.get(name)
            yield Covered(name, f"{path}/{config}", form, None if form else _reason(name))


def _dataset(data: dict[str, object]) -> tuple[str | None, str]:
    """The path and the configuration of a task's dataset, as the mirrors name them."""
    if of_hub := re.search(r"hf://datasets/([^/]+/[^/]+)/", str(data.get("dataset_kwargs"))):
        return of_hub[1], str(data.get("task"))
    path = data.get("dataset_path")
    if not isinstance(path, str) or not path:
        return None, ""
    path = COPIES.get(path, path)
    config = data.get("dataset_name") or DEFAULTS.get(path)
    configs = {config for config, _ in _rows(path)}
    return path, str(config) if config else configs.pop() if len(configs) == 1 else "default"


@cache
def _rows(path: str) -> frozenset[tuple[str, str]]:
    """The configurations and splits of a dataset in the mirrors."""
    folders = [folder / path for folder in mirror_folders(MIRROR)]
    return frozenset((file.parent.name, file.stem) for folder in folders for file in folder.glob("*/*.jsonl"))


def _reason(name: str) -> str | None:
    found = (reason for reason, globs in REASONS.items() if any(fnmatch.fnmatchcase(name, glob) for glob in globs))
    return next(found, None)


def main() -> int:
    """Print the coverage; 1 if a task has neither a form nor a reason."""
    parser = argparse.ArgumentParser(prog="python -m tools.parity.coverage", description=__doc__)
    parser.add_argument("--tasks", action="store_true", help="a line for each task instead of each dataset")
    options = parser.parse_args()
    done = sorted(covered(), key=lambda one: (one.dataset.casefold(), one.name))
    if options.tasks:
        for one in done:
            print(f"{one.dataset}\t{one.name}\t{one.form or one.reason or 'NO REASON'}")
    else:
        by_dataset: dict[str, list[Covered]] = {}
        for one in done:
            by_dataset.setdefault(one.dataset.rpartition("/")[0], []).append(one)
        for dataset, tasks in by_dataset.items():
            print(f"{sum(one.form is not None for one in tasks):4} of {len(tasks):4}  {dataset}")
    print(f"\ntasks of lm-eval with rows  {len(done):,}, of {len({one.dataset for one in done}):,} configurations")
    print(f"with a form of the library  {sum(one.form is not None for one in done):,}")
    reasons = collections.Counter(one.reason for one in done if one.form is None)
    for reason, number in reasons.most_common():
        print(f"{number:5}  {reason or 'NO REASON'}")
    for one in done:
        if one.form is None and one.reason is None:
            print(f"no form and no reason: {one.name} ({one.dataset})")
    return 1 if None in reasons else 0


if __name__ == "__main__":
    sys.exit(main())
