"""Progress: shown where somebody looks, by tokens, with signs of life, and never wider than the terminal."""

from __future__ import annotations

import io
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from multiform import evaluate
from multiform.models.dummy import DummyModel
from multiform.models.model import Usage
from multiform.requests import Completion, GenerationRequest, LoglikelihoodRequest, Request, Response, request_size
from multiform.run.displays import PlainProgress, Silent, TerminalProgress, chosen_progress
from multiform.run.progress import RunningScore, RunStatus, score_lines
from multiform.statistics.estimates import Estimate


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    evaluate(model="dummy", tasks="quiz@mcqa", limit=2)
    assert "loading model 'dummy'" in terminal.getvalue()
    with chosen_progress(None) as shown:
        assert isinstance(shown, TerminalProgress)


def test_a_pipe_shows_nothing_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    evaluate(model="dummy", tasks="quiz@mcqa", limit=2)
    assert pipe.getvalue() == ""
    evaluate(model="dummy", tasks="quiz@mcqa", limit=2, progress=True)
    assert "running 8 requests for 2 documents" in pipe.getvalue()
    with chosen_progress(True) as shown:
        assert isinstance(shown, PlainProgress)


def test_a_terminal_shows_nothing_where_that_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    with chosen_progress(False) as shown:
        assert isinstance(shown, Silent)


def test_a_notebook_shows_a_line_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []

    class Line:
        def update(self, text: Any) -> None:
            lines.append(repr(text))

    def display(text: Any, display_id: bool) -> Line:
        lines.append(repr(text))
        return Line()

    ipython, displays = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    displays.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", displays)
    evaluate(model="dummy", tasks="quiz@mcqa", limit=2)
    assert lines[0] == "loading model 'dummy'"
    assert lines[-1].startswith("8 of 8 requests")


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def status_of(requests: Sequence[Request], workload: Usage | None = None, **options: Any) -> RunStatus:
    """The status of a run of these requests."""
    status = RunStatus(**options)
    status.add(len(requests), sum(map(request_size, requests)), workload=workload)
    return status


class Meter:
    """What a scripted model has computed."""

    def __init__(self) -> None:
        self.usage = Usage()

    def __call__(self) -> Usage:
        return self.usage


def test_the_time_left_is_by_tokens_and_not_by_requests() -> None:
    clock, meter = Clock(), Meter()
    requests = [LoglikelihoodRequest("a", str(i)) for i in range(90)] + [
        GenerationRequest.of("a", {}, sample=i) for i in range(10)
    ]
    work = Usage(prefill=1000, unshared=4000, decode=2000, completions=10)
    status = status_of(requests, workload=work, usage=meter, clock=clock)
    left = status.time_left
    assert left is None

    # 90 of 100 requests are answered, in ten seconds; nothing is known about the speed of decoding.
    clock.now, meter.usage = 10, Usage(prefill=500, prefill_seconds=10, unshared=3600)
    for request in requests[:90]:
        status.count(1, request_size(request))
    left = status.time_left
    assert left is not None
    assert (left.seconds, left.bound) == (10, "at least")

    # Decoding takes a tenth of a second for each token, and no completion is finished.
    clock.now += 20
    meter.usage = Usage(prefill=1000, prefill_seconds=20, decode=100, decode_seconds=10, unshared=3600)
    left = status.time_left
    assert left is not None
    assert (left.seconds, left.bound) == (190, "at most")

    # Completions have 50 tokens on average, where 200 are allowed: 500 in all, of which 200 are there.
    meter.usage = Usage(
        prefill=1000, prefill_seconds=20, decode=200, decode_seconds=20, completions=2, completion_tokens=100
    )
    left = status.time_left
    assert left is not None
    assert (left.seconds, left.bound) == (30, "about")
    assert status.tokens == (1200, 1500)


def test_the_time_left_is_by_the_length_of_requests_where_tokens_are_not_counted() -> None:
    clock = Clock()
    requests = [LoglikelihoodRequest("a" * 99, "b"), LoglikelihoodRequest("a" * 899, "b")]
    status = status_of(requests, clock=clock)
    clock.now = 2
    status.count(1, request_size(requests[0]))
    assert status.time_left is not None
    assert status.time_left.seconds == 18
    assert status.share == 0.1


def test_a_long_batch_gives_signs_of_life_in_a_pipe() -> None:
    clock, meter, out = Clock(), Meter(), io.StringIO()
    display = PlainProgress(out, clock, tick=1000)
    display.begin(4, 1)
    display.watch(status_of([LoglikelihoodRequest("a", "b")] * 4, workload=Usage(prefill=90), usage=meter, clock=clock))
    for second in range(1, 31):  # one batch of thirty seconds: no request is answered
        clock.now, meter.usage = float(second), Usage(prefill=second, prefill_seconds=second)
        display.tick()
    display.end()
    states = [line for line in out.getvalue().splitlines() if "tokens" in line]
    assert len(states) == 7
    assert states[0].startswith("6% · 0 of 4 requests · 5 of 90 tokens · 1 tokens/s · 0:05 · about 1:25 left")


def test_loading_gives_signs_of_life_in_a_pipe() -> None:
    clock, out = Clock(), io.StringIO()
    display = PlainProgress(out, clock, tick=1000)
    display.message("loading model 'large'")
    clock.now = 8
    display.tick()
    display.end()
    assert out.getvalue().splitlines() == ["loading model 'large'", "loading model 'large': 0:08 so far"]


def test_signs_of_life_come_from_a_thread_while_the_model_computes() -> None:
    seen = threading.Event()

    class Out(io.StringIO):
        def write(self, text: str) -> int:
            if "so far" in text:
                seen.set()
            return super().write(text)

    clock = Clock()
    display = PlainProgress(Out(), clock, tick=0.01)
    display.message("loading model 'large'")
    clock.now = 6
    assert seen.wait(10), "nothing was printed while this thread was busy"
    display.end()


@pytest.mark.parametrize("width", [80, 120])
def test_no_number_is_cut_in_a_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("LINES", "24")
    clock, meter = Clock(), Meter()
    display = TerminalProgress(Terminal(), clock)
    work = Usage(prefill=456_789_012, unshared=956_789_012, decode=98_765_432, completions=5)
    status = status_of([LoglikelihoodRequest("a", "b")] * 1_234_567, workload=work, usage=meter, clock=clock)
    clock.now, status.completed = 36_000, 123_456
    meter.usage = Usage(prefill=123_456_789, prefill_seconds=30_000, decode=10, decode_seconds=10, unshared=10)
    long = "a_task_with_a_very_long_name_that_no_terminal_has_room_for@mcqa[labels=roman,wrap=(),sep=space]"
    status.scores = [
        RunningScore(
            form=f"{long}{i}",
            metric="a_metric_with_a_very_long_name",
            estimate=Estimate(value=0.1234, n=10_000 + i, low=0.1111, high=0.2222),
            documents=100_000,
        )
        for i in range(40)
    ]
    display.watch(status)
    with display.console.capture() as captured:
        display.console.print(display.render())
    lines = captured.get().splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) < 24
    text = "\n".join(lines)
    for number in ("123,456 of 1,234,567 requests", "123.5M of 555.6M tokens", "10:00:00", "left", "and 20 more forms"):
        assert number in text
    assert len(re.findall(r"0\.1234 \(0\.1111 to 0\.2222\)  10,0\d\d/100,000$", text, re.MULTILINE)) == 20


def test_a_score_without_an_interval_is_shown_alone() -> None:
    score = RunningScore(form="quiz", metric="f1", estimate=Estimate(value=0.5, n=3), documents=9)
    assert score_lines([score], 80) == ["quiz  f1  0.5000  3/9"]


class Watching(Silent):
    """Keeps the status of a run."""

    status: RunStatus

    def watch(self, status: RunStatus) -> None:
        self.status = status


def test_the_last_running_scores_are_those_of_the_table() -> None:
    watching = Watching()
    results = evaluate(model="dummy", tasks="quiz@mcqa+cloze+generate", limit=9, use_cache=False, progress=watching)
    shown = {score.form: (score.metric, score.estimate) for score in watching.status.scores}
    assert shown == {
        form.name: (form.primary.partition(",")[0], form.estimates[form.primary]) for form in results.forms
    }
    assert [score.documents for score in watching.status.scores] == [9, 9, 9]


def test_a_display_without_watch_is_told_as_before() -> None:
    class Own(Silent):
        answers = 0

        def on_response(self) -> None:
            self.answers += 1

    own = Own()
    evaluate(model="dummy", tasks="quiz@mcqa", limit=2, use_cache=False, progress=own)
    assert own.answers == 8


class Counting(DummyModel):
    """A model that counts a token for each word, and shares nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.words = 0

    def generate(self, requests: Sequence[GenerationRequest]) -> Iterator[Response[Completion]]:
        for position, output in super().generate(requests):
            self.words += len(requests[position].context.split())
            yield position, output

    def usage(self) -> Usage:
        return Usage(prefill=self.words, unshared=2 * self.words)


def test_the_results_say_what_was_computed_in_this_run_alone() -> None:
    model = Counting()
    model.words = 1000
    results = evaluate(model=model, tasks="quiz@generate", limit=3, use_cache=False, progress=False)
    usage = results.provenance["usage"]
    words = sum(len(sample.sample.prompt.split()) for sample in results.forms[0].samples)
    assert (usage["requests"], usage["requests_cached"]) == (3, 0)
    assert (usage["prompt_tokens_computed"], usage["prompt_tokens_without_sharing"]) == (words, 2 * words)


def test_models_that_count_nothing_have_no_tokens() -> None:
    usage = evaluate(model="dummy", tasks="quiz@mcqa", limit=2, use_cache=False, progress=False).provenance["usage"]
    assert usage["requests"] == 8
    assert usage["prompt_tokens_computed"] is None
