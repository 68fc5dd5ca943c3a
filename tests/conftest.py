"""What all tests share: the real rows, where they are, and a clean working folder."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from multiform.models.instruction_set import limit_instruction_set
from tests.browser import chromium, open_page

__all__ = ["chromium", "open_page"]

ROOT = Path(__file__).parent.parent

#: No test asks the hub. The library looks at this once, when it is imported.
os.environ["HF_HUB_OFFLINE"] = "1"

# Tests use torch in half precision themselves, and so does lm-eval beside them.
limit_instruction_set()

# How long an example takes depends on what else the machine does.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


def pytest_collection_finish() -> None:
    """Spare the garbage collector what stays to the end: the tests, and all that they import."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _own_stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Iterator[Path]]:
    """Folders for stored responses, a new one for each test.

    No test reads or writes the user's, not even a fixture of a whole session.
    """
    folder = tmp_path_factory.mktemp("stores")  # one for all, as making it looks at all that were made before
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MULTIFORM_STORE", str(folder / "answers.db"))
        yield (folder / f"store{number}" for number in count())


@pytest.fixture(autouse=True)
def _new_store(_own_stores: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """No test finds the responses of another one."""
    folder = next(_own_stores)
    folder.mkdir()
    monkeypatch.setenv("MULTIFORM_STORE", str(folder / "answers.db"))


@pytest.fixture(autouse=True)
def _own_task_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test finds the Python tasks that another one defined."""
    from multiform.tasks.python_tasks import task_classes

    monkeypatch.setattr(task_classes, "_entries", dict(task_classes._entries))


@pytest.fixture(autouse=True)
def _own_registrations(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test finds what another one registered."""
    from multiform.formats.base import formats
    from multiform.forms import samplers
    from multiform.models import models
    from multiform.scoring.filters import filters
    from multiform.scoring.metrics import metrics
    from multiform.scoring.scorers import scorers

    for registry in (filters, formats, metrics, models, samplers, scorers):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))


@pytest.fixture
def rendered(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The documents that forms render from now on, in a list that grows."""
    from multiform.forms import Sample
    from multiform.forms.renderer import Renderer

    doc_ids: list[int] = []
    sample = Renderer.sample

    def noting(renderer: Renderer, doc_id: int, *args: Any) -> Sample:
        doc_ids.append(doc_id)
        return sample(renderer, doc_id, *args)

    monkeypatch.setattr(Renderer, "sample", noting)
    return doc_ids


@pytest.fixture(scope="session")
def mirror() -> Path:
    """The folder of real benchmark rows; tests that need it are skipped where it is absent."""
    path = Path(os.environ.get("MULTIFORM_DATASET_MIRROR") or ROOT.parent / "shared" / "data")
    if not path.is_dir():
        pytest.skip(f"no benchmark rows at {path}: set MULTIFORM_DATASET_MIRROR")
    return path


@pytest.fixture(scope="session")
def examples() -> Path:
    """The folder of example tasks."""
    return ROOT / "examples"


@pytest.fixture(scope="session")
def bundled_path() -> Path:
    """The bundled model, converted; tests that need it are skipped without the `hf` extra."""
    pytest.importorskip("torch", reason="torch is not installed: pip install 'multiform[hf]'")
    from multiform.errors import ModelError
    from multiform.models.hf.model import bundled_folder

    try:
        return bundled_folder()
    except ModelError as error:
        pytest.skip(str(error))
