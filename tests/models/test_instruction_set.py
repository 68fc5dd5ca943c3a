"""Half precision on CPUs that advertise AMX and trap it: simulated by a trial that dies, on a CPU with such flags."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from multiform.errors import ModelError
from multiform.models import instruction_set
from multiform.models.instruction_set import (
    VARIABLE,
    WITHOUT_AMX,
    check_half_precision,
    limit_instruction_set,
)

pytestmark = pytest.mark.process

#: A trial that dies, as by an illegal instruction, unless oneDNN is limited.
TRAPS = f"import os\nif os.environ.get('{VARIABLE}') != '{WITHOUT_AMX}': os.abort()"
DIES = "import os; os.abort()"
FAILS = "raise ImportError('no torch here')"


@pytest.fixture(autouse=True)
def _amx_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A CPU that advertises AMX, of which nothing is known yet."""
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor : 0\nmodel name : Xeon\nflags : fpu avx512f amx_bf16 amx_tile\n\nprocessor : 1\n")
    monkeypatch.setattr(instruction_set, "_CPUINFO", cpuinfo)
    monkeypatch.setenv("MULTIFORM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(VARIABLE, raising=False)
    limit_instruction_set.cache_clear()
    yield
    limit_instruction_set.cache_clear()


@pytest.fixture
def trial(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """Tries this code from now on; gives the limits under which it is tried, in a list that grows."""

    def use(code: str) -> list[str]:
        tried: list[str] = []
        usual = instruction_set._run_trial

        def run(limit: str) -> tuple[int, str]:
            tried.append(limit)
            return usual(limit)

        monkeypatch.setattr(instruction_set, "_TRIAL", code)
        monkeypatch.setattr(instruction_set, "_run_trial", run)
        return tried

    return use


def in_a_later_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what this process knows, but not what is kept."""
    limit_instruction_set.cache_clear()
    monkeypatch.delenv(VARIABLE, raising=False)


def test_where_the_trial_dies_onednn_is_limited(
    trial: Callable[[str], list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    tried = trial(TRAPS)
    check_half_precision(where="model")
    assert tried == ["", WITHOUT_AMX]
    assert os.environ[VARIABLE] == WITHOUT_AMX
    [warning] = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert "advertises AMX" in warning
    assert f"{VARIABLE}={WITHOUT_AMX}" in warning


def test_the_verdict_is_kept_for_later_processes(
    trial: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = trial(TRAPS)
    assert limit_instruction_set() == "limited"
    in_a_later_process(monkeypatch)
    assert limit_instruction_set() == "limited"
    assert os.environ[VARIABLE] == WITHOUT_AMX
    # A process that this one starts inherits the limit.
    limit_instruction_set.cache_clear()
    assert limit_instruction_set() == "runs"
    assert len(tried) == 2


def test_the_real_trial_runs_here(trial: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    tried = trial(instruction_set._TRIAL)
    monkeypatch.setenv(VARIABLE, WITHOUT_AMX)  # so that it runs on a machine that traps, too
    assert limit_instruction_set() == "runs"
    assert tried == [WITHOUT_AMX]


def test_a_cpu_without_amx_is_not_tried(trial: Callable[[str], list[str]], tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("model name : EPYC\nflags : fpu avx512f avx512_bf16\n")
    tried = trial(DIES)
    check_half_precision(where="model")
    assert not tried
    assert VARIABLE not in os.environ


def test_where_no_limit_helps_half_precision_is_refused(
    trial: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = trial(DIES)
    for _ in range(2):
        with pytest.raises(ModelError, match=r"model: half precision crashes on this CPU.*dtype=float32"):
            check_half_precision(where="model")
        in_a_later_process(monkeypatch)
    assert len(tried) == 2


def test_a_trial_that_cannot_run_says_nothing_about_the_cpu(
    trial: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tried = trial(FAILS)
    check_half_precision(where="model")
    assert "cannot be tried on this CPU, which advertises AMX: ImportError: no torch here" in caplog.text
    in_a_later_process(monkeypatch)
    check_half_precision(where="model")
    assert len(tried) == 2


def test_a_process_that_has_used_onednn_with_amx_is_told_so(
    trial: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # oneDNN reads its limit once; here it has been read before, which only a copy of this process can show.
    trial(f"{TRAPS}\nimport sys\nif 'has_used_onednn' in sys.modules: os.abort()")
    monkeypatch.setitem(sys.modules, "has_used_onednn", ModuleType("has_used_onednn"))
    with pytest.raises(ModelError, match=f"already been used with it; set {VARIABLE}={WITHOUT_AMX} before Python"):
        check_half_precision(where="model")
    with pytest.raises(ModelError, match="already been used"):  # nor is the limit in force the next time
        check_half_precision(where="model")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_every_model_on_a_cpu_is_limited_before_it_runs(
    dtype: str, trial: Callable[[str], list[str]], tiny: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    from multiform.models.hf.model import HFModel

    trial(TRAPS)
    HFModel(str(tiny()), dtype=dtype, device="cpu")
    assert os.environ[VARIABLE] == WITHOUT_AMX
    assert ("advertises AMX, but half precision crashes" in caplog.text) is (dtype != "float32")


def test_a_model_in_half_precision_is_refused_where_it_would_crash(
    trial: Callable[[str], list[str]], tiny: Callable[..., Path]
) -> None:
    from multiform.models.hf.model import HFModel

    trial(DIES)
    with pytest.raises(ModelError, match="half precision crashes on this CPU"):
        HFModel(str(tiny()), dtype="bfloat16", device="cpu")
    HFModel(str(tiny()), dtype="float32", device="cpu")
