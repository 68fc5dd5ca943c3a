"""The check of accelerators, on a CPU: what it reports, and what it says where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.tiny_models import llama_config, make_tokenizer, save_random
from tools import gpu_check

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.long
def test_the_report_has_all_three_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = make_tokenizer(bos=True)
    model = save_random(tmp_path / "tiny", llama_config(len(tokenizer), max_position_embeddings=4096), tokenizer)
    output = tmp_path / "report.md"
    arguments = ["--device", "cpu", "--model", str(model), "--docs", "2", "--zoo", "llama", "no_such"]
    assert gpu_check.main([*arguments, "--output", str(output)]) == 1  # one architecture fails
    lines = output.read_text().splitlines()
    assert "* device: cpu" in lines
    assert any(line.startswith("| llama | shared | shared |") and line.endswith("| yes |") for line in lines)
    assert any(line.startswith("| no_such |") and line.endswith("| no |") for line in lines)
    assert [line for line in lines if line.startswith(("| labels | 8 | 0e+00 | 8", "| texts | 8 | 0e+00 | 8"))]
    assert len([line for line in lines if line.startswith("| completions | 2 |")]) == 2
    assert "attach it" in capsys.readouterr().err


def test_scores_that_differ_are_found() -> None:
    _, is_fine = gpu_check._parity_line("labels", [[-2.0, True], [-9.0, False]], [[-2.00001, True], [-9.0, False]])
    assert is_fine
    line, is_fine = gpu_check._parity_line("labels", [[-2.0, True]], [[-2.01, False]])
    assert not is_fine
    assert line == "| labels | 1 | 1e-02 | 0 |"


@pytest.mark.skipif(gpu_check.accelerator() is not None, reason="there is an accelerator")
def test_without_an_accelerator_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu_check.main([]) == 2
    assert "no accelerator here" in capsys.readouterr().err
    assert torch.cuda.is_available() or gpu_check.main(["--device", "cuda"]) == 2
