"""Requests come one document at a time: however many there are, they take no more memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from multiform.forms import Task
from multiform.tasks import TaskManager


def quiz() -> Task:
    task = Task.from_config(TaskManager().load("quiz@mcqa")[0])
    task.set_num_fewshot(2)
    return task


def test_a_request_is_made_when_it_is_asked_for() -> None:
    task = quiz()
    read: list[int] = []

    def docs() -> Iterator[tuple[int, dict[str, Any]]]:
        for doc_id, doc in task.doc_iterator():
            read.append(doc_id)
            yield doc_id, doc

    requests = task.stream_requests(docs())
    assert read == []
    first = next(requests)
    assert (first.doc_id, read) == (0, [0])
    assert [first, *requests] == quiz().build_all_requests()


@pytest.mark.long
def test_ten_times_the_documents_take_no_more_memory() -> None:
    task = quiz()
    one = list(task.doc_iterator(limit=20))

    def peak(times: int) -> int:
        tracemalloc.start()
        for _ in task.stream_requests(pair for _ in range(times) for pair in one):
            pass
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(50)  # what is compiled and rendered once, few-shot examples among it
    assert peak(50) < 1.5 * peak(5)
