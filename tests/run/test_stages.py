"""Documents that are asked about in stages: requests that follow from responses run in waves, and are stored as any."""

from __future__ import annotations

import pytest

from multiform import Completion, IncompleteRunError, evaluate
from multiform.forms.output_kinds import GenerationKind
from multiform.models.dummy import DummyModel
from multiform.requests import FailedRequest, GenerationRequest
from multiform.run.rescoring import rescore


class Echo(DummyModel):
    """Completes a prompt with the number of its requests so far; `fails` says for which prompts it does not."""

    name = identity = "echo"
    stored = True

    def __init__(self, fails=lambda prompt: False) -> None:
        super().__init__()
        self.waves: list[list[str]] = []
        self.fails = fails

    def generate(self, requests):
        self.waves.append([request.context for request in requests])
        for position, request in enumerate(requests):
            failed = self.fails(request.context)
            yield position, FailedRequest(reason="no") if failed else Completion(f" reply {len(request.context)}.")


@pytest.fixture(autouse=True)
def three_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every document is asked about three times, each time with the replies so far in the prompt."""

    def next_requests(self, sample, outputs, chat_template):
        last = sample.instances[-1].request
        if len(outputs) == 3:
            return []
        return [GenerationRequest(f"{last.context}{outputs[-1].text} Sure?", last.options)]

    monkeypatch.setattr(GenerationKind, "next_requests", next_requests)
    monkeypatch.setattr(GenerationKind, "has_stages", True)


def run(model, tmp_path, **options):
    return evaluate(model=model, tasks="quiz@generate", use_cache=tmp_path / "store.db", **{"limit": 3, **options})


def test_each_stage_is_a_wave_over_all_documents(tmp_path):
    model = Echo()
    results = run(model, tmp_path)
    assert [len(wave) for wave in model.waves] == [3, 3, 3]
    assert all(prompt.count("Sure?") == number for number, wave in enumerate(model.waves) for prompt in wave)
    sample = results.forms[0].samples[0]
    assert [instance.idx for instance in sample.instances] == [0, 1, 2]
    assert sample.instances[2].request.context.count(" reply ") == 2
    assert len(sample.outputs) == 3


def test_a_second_run_asks_nothing_and_a_longer_one_the_rest(tmp_path):
    run(Echo(), tmp_path)
    again, longer = Echo(), Echo()
    run(again, tmp_path)
    run(longer, tmp_path, limit=5)
    assert again.waves == []
    assert [len(wave) for wave in longer.waves] == [2, 2, 2]


def test_a_run_that_failed_in_a_later_stage_goes_on_there(tmp_path):
    broken = Echo(fails=lambda prompt: prompt.count("Sure?") == 2)
    with pytest.raises(IncompleteRunError):
        run(broken, tmp_path)
    assert [len(wave) for wave in broken.waves] == [3, 3, 3]
    model = Echo()
    whole = run(model, tmp_path)
    assert [len(wave) for wave in model.waves] == [3]
    other = run(Echo(), tmp_path / "elsewhere")
    assert [s.outputs for s in whole.forms[0].samples] == [s.outputs for s in other.forms[0].samples]


def test_a_document_that_failed_is_not_asked_about_again(tmp_path):
    model = Echo(fails=lambda prompt: prompt.count("Sure?") == 1)
    with pytest.raises(IncompleteRunError):
        run(model, tmp_path, on_error="skip")
    assert [len(wave) for wave in model.waves] == [3, 3]


def test_the_plan_says_that_there_are_later_stages(tmp_path):
    plan = run(Echo(), tmp_path, plan_only=True).run["plan"]
    assert "3 distinct requests for 3 documents" in plan
    assert "3 documents are asked about again, after these responses" in plan


def test_rescoring_from_the_store_follows_the_stages(tmp_path):
    first = run(Echo(), tmp_path, output_path=tmp_path / "out")
    again = rescore(tmp_path / "out", use_cache=tmp_path / "store.db")
    assert [s.outputs for s in again.forms[0].samples] == [s.outputs for s in first.forms[0].samples]
