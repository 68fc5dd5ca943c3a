"""Time limits: they stop what computes for too long, and leave everything else alone."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import threading
import time

import pytest

from multiform.limits import TimeLimitError, charge, metering, survives, within


def endless() -> None:
    while True:
        pass


def test_a_loop_and_a_regular_expression_are_stopped():
    for work in (endless, lambda: re.search("(a+)+$", "a" * 40 + "b")):
        started = time.thread_time()
        with pytest.raises(TimeLimitError, match=r"more than 0\.2 s"), within(0.2):
            work()
        assert time.thread_time() - started < 1


def test_waiting_does_not_count():
    with within(0.2):
        time.sleep(0.5)


def test_the_outer_limit_holds():
    with pytest.raises(TimeLimitError, match=r"more than 0\.2 s"), within(0.2), within(60):
        endless()


def test_nothing_is_stopped_after_a_limit_has_ended():
    for _ in range(3):
        with within(0.2):
            pass
    until = time.thread_time() + 0.5
    while time.thread_time() < until:
        pass


def test_in_another_thread_nothing_is_limited():
    done = []

    def work() -> None:
        with within(0.1):
            until = time.thread_time() + 0.4
            while time.thread_time() < until:
                pass
        done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done


@pytest.mark.process
def test_a_process_that_ends_while_the_timer_ticks_ends_well():
    code = "from multiform.limits import within\nwith within(1): sum(range(10**6))\nclass Late:\n"
    code += " def __del__(self):\n  for _ in range(10**7): pass\nlate = Late()"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.long
def test_a_child_process_tells_what_is_too_much():
    assert survives(lambda: 1 / 0) is None  # the caller gets the error
    assert survives(endless) == "it takes more than 1 s"
    assert survives(lambda: pow(7, 7**9)) == "it takes more than 1 s"  # one call, which no signal handler can stop
    assert survives(lambda: [bytes(2**20) for _ in range(10**4)]) == "it takes more than 256 MB"


def test_a_child_process_sees_the_random_numbers_that_follow_here():
    random.seed(7)
    expected = random.Random(7).random()
    assert survives(lambda: endless() if random.random() != expected else None) is None
    assert random.random() == expected


def test_a_child_process_can_be_started_in_any_thread():
    verdicts = []
    thread = threading.Thread(target=lambda: verdicts.append(survives(endless)))
    thread.start()
    thread.join()
    assert verdicts == ["it takes more than 1 s"]


def test_an_operation_on_a_long_text_and_an_empty_one_costs_as_much_as_the_text():
    with metering() as meter:
        before = meter.left
        charge("replace", ["x" * 1000, "", ""])
        assert before - meter.left >= 1000
