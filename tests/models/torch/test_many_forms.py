"""Many forms in one run: what their prompts have in common is computed once."""

from __future__ import annotations

import re

import pytest

from multiform.cli.main import main

COST = re.compile(r"([\d,]+) in the prefix tree, ([\d,]+) computed")


@pytest.mark.bundled
def test_all_formats_and_eight_variations_compute_their_prefix_tree_and_hardly_more(bundled_path, mirror, capsys):
    pytest.importorskip("lm_eval")
    model = ["--model", "hf", "--model_args", f"pretrained={bundled_path}"]
    arguments = ["--include_path", "lm_eval", "--dataset_mirror", str(mirror), *model]
    tasks = "arc_challenge@all+mcqa~8"
    assert main(["run", tasks, "--limit", "12", "--num_fewshot", "2", "--no_cache", "--plan", *arguments]) == 0
    costs = [[int(number.replace(",", "")) for number in pair] for pair in COST.findall(capsys.readouterr().out)]
    assert len(costs) == 2  # continuations that are scored, and prompts that are completed
    for nodes, computed in costs:
        assert nodes <= computed <= 1.03 * nodes
