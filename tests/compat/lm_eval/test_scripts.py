"""Users' scripts print the same on Multiform as on lm-eval, without a change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from .conftest import needs_lm_eval

pytestmark = pytest.mark.process

Run = Callable[..., str]
Arguments = Callable[[str], Sequence[str | Path]]


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random model with a tokenizer of letters."""
    pytest.importorskip("torch", reason="torch is not installed: pip install 'multiform[hf]'")
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    from tests.tiny_models import llama_config, save_random

    letters = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()), start=2)}
    tokenizer = Tokenizer(models.BPE({"<s>": 0, "</s>": 1, **letters}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>", bos_token="<s>")
    options = {"num_key_value_heads": 2, "max_position_embeddings": 512, "bos_token_id": 0, "eos_token_id": 1}
    config = llama_config(len(made), initializer_range=0.4, **options)
    return save_random(tmp_path_factory.mktemp("models") / "tiny", config, made)


@pytest.fixture(scope="session")
def arguments(folder: Path, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Arguments:
    """What each script is called with; files that it writes go to a new folder each time."""

    def of(script: str) -> Sequence[str | Path]:
        config = folder / "run.config"
        config.write_text(
            f"model: hf\nmodel_args: {{pretrained: {model}, dtype: float32}}\ntasks: [animals]\nnum_fewshot: 1\n"
            f"limit: 3\nbatch_size: 2\ndevice: cpu\ninclude_path: {folder}\nseed: [0, 1234, 1234, 1234]\n"
        )
        return {
            "simple.py": [model, folder],
            "custom_model.py": [folder],
            "custom_task.py": [folder / "rows.jsonl"],
            "samples.py": [model, folder],
            "tracker.py": [model, folder, tmp_path_factory.mktemp("output")],
            "config_file.py": [config, tmp_path_factory.mktemp("output")],
        }[script]

    return of


SCRIPTS = ["simple.py", "custom_model.py", "custom_task.py", "samples.py", "config_file.py", "tracker.py"]


@needs_lm_eval
@pytest.mark.parity
@pytest.mark.parametrize(
    "script",
    [
        *("simple.py", "custom_model.py", "custom_task.py", "tracker.py"),
        *(pytest.param(script, marks=pytest.mark.slow) for script in ("samples.py", "config_file.py")),
    ],
)
def test_a_script_prints_the_same_on_both(script: str, run: Run, arguments: Arguments):
    assert _told(run(script, *arguments(script))) == _told(run(script, *arguments(script), real=True))


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_runs_where_lm_eval_is_not_installed(script: str, run: Run, arguments: Arguments):
    assert _told(run(script, *arguments(script), blocked=True))


def _told(printed: str) -> list[str]:
    """What a script prints itself; the table of a command line is each harness's own."""
    lines = [line.rstrip() for line in printed.splitlines() if line.strip()]
    read = [line for line in lines if line.startswith("read ")]
    return read or lines
