"""What the tests of the specification share: a few rows, tasks over them, and a model that says what it is told."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from multiform.forms import Task
from multiform.models import Model
from multiform.requests import Completion, GenerationRequest, LLOutput, LoglikelihoodRequest, RollingRequest
from multiform.scoring.scorers import Scorer, register_scorer


def _row(question: str, answer: int) -> dict[str, Any]:
    return {"question": question, "choices": ["no", "yes"], "answer": answer}


TEST = [_row("Can fish fly?", 0), _row("Is snow white?", 1), _row("Is fire cold?", 0), _row("Do birds sing?", 1)]
TRAIN = [
    _row("Is ice cold?", 1),
    _row("Is rain wet?", 1),
    _row("Can cats swim?", 1),
    _row("Is lead light?", 0),
    _row("Is grass blue?", 0),
    _row("Do stones eat?", 0),
]

FIELDS: dict[str, Any] = {
    "task": "facts",
    "custom_dataset": lambda **kwargs: {"test": TEST, "train": TRAIN},
    "test_split": "test",
    "training_split": "train",
    "fewshot_split": "train",
    "fewshot_config": {"sampler": "first_n"},
    "doc_to_text": "question",
    "doc_to_choice": "choices",
    "doc_to_target": "answer",
}


SCRIPT = Path(__file__).parents[2] / "tools" / "scripts" / "spec_coverage.py"


class Scripted(Model):
    """Writes and prefers what it is told, and keeps what it was asked."""

    name = identity = "scripted"

    def __init__(
        self,
        writes: Callable[[GenerationRequest], str] = lambda request: "",
        likes: Callable[[str], float] = lambda continuation: -1.0,
    ) -> None:
        self.writes = writes
        self.likes = likes
        self.asked: list[Any] = []

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Iterator[tuple[int, LLOutput]]:
        for position, request in enumerate(requests):
            self.asked.append(request)
            value = self.likes(request.context + request.continuation)
            yield position, LLOutput(value, is_greedy=value > -1, tokens=1)

    def loglikelihood_rolling(self, requests: Sequence[RollingRequest]) -> Iterator[tuple[int, LLOutput]]:
        for position, request in enumerate(requests):
            self.asked.append(request)
            yield position, LLOutput(self.likes(request.text))

    def generate(self, requests: Sequence[GenerationRequest]) -> Iterator[tuple[int, Completion]]:
        for position, request in enumerate(requests):
            self.asked.append(request)
            yield position, Completion(self.writes(request))

    def apply_chat_template(self, messages: Sequence[Any], *, add_generation_prompt: bool = True) -> str:
        turns = [f"<{message['role']}>{message['content']}" for message in messages]
        return "".join(turns) + ("<assistant>" if add_generation_prompt else "")


@pytest.fixture(scope="session")
def coverage() -> Any:
    """The script that knows every name of the specification, as a module."""
    spec = importlib.util.spec_from_file_location("spec_coverage", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def fields() -> dict[str, Any]:
    """The fields of a small multiple-choice task, to be changed."""
    return {**FIELDS, "output_type": "multiple_choice"}


@pytest.fixture
def choosing(fields: dict[str, Any]) -> Callable[..., Task]:
    """Makes a task that ranks "no" and "yes", with fields changed."""
    return lambda **changes: Task.from_config({**fields, **changes})


@pytest.fixture
def writing(fields: dict[str, Any]) -> Callable[..., Task]:
    """Makes a task in which the model writes "no" or "yes", with fields changed."""
    usual = {**fields, "output_type": "generate_until", "doc_to_choice": None, "doc_to_target": "{{choices[answer]}}"}
    return lambda **changes: Task.from_config({**usual, **changes})


@pytest.fixture
def prompt() -> Callable[..., str]:
    """The context of a task's first request."""
    return lambda task, **options: task.build_all_requests(limit=1, **options)[0].request.context


@pytest.fixture
def continuations() -> Callable[..., list[str]]:
    """What a task scores for its first document."""
    return lambda task, **options: [
        instance.request.continuation for instance in task.build_all_requests(limit=1, **options)
    ]


@pytest.fixture
def saying() -> Callable[..., Scripted]:
    """Makes a model that writes the texts in turn, one for each repeat."""
    return lambda *texts: Scripted(writes=lambda request: texts[request.sample % len(texts)])


@pytest.fixture
def liking() -> Callable[..., Scripted]:
    """Makes a model to which texts with these endings, or by this function, are likely."""

    def make(*endings: str, by: Callable[[str], float] | None = None) -> Scripted:
        return Scripted(likes=by or (lambda text: -0.5 if text.endswith(endings) else -5.0))

    return make


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Writes files into an empty folder, which is the current one; gives the folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MULTIFORM_DATASET_MIRROR", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def make(files: dict[str, str]) -> Path:
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        return tmp_path

    return make


@pytest.fixture
def share_scorer() -> None:
    """A scorer `share`, which scores all documents together."""

    @register_scorer("share")
    @dataclass(kw_only=True, eq=False)
    class Share(Scorer):
        deferred: ClassVar[bool] = True

        def score_instances(self, outcomes: Sequence[Any], docs: Sequence[Any]) -> list[dict[str, Any]]:
            return [{"share": 1 / len(outcomes)} for _ in outcomes]
