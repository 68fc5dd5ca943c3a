"""Requests come one document at a time: however many there are, they take no more memory."""

from __future__ import annotations

import tracemalloc

import pytest

from multiform.forms import Task
from multiform.tasks.manager import TaskManager


def quiz() -> Task:
    task = Task.from_config(TaskManager().load("quiz@mcqa")[0])
    task.set_num_fewshot(2)
    return task


@pytest.mark.long
def test_ten_times_the_documents_take_no_more_memory() -> None:
    task = quiz()
    one = list(task.doc_iterator(limit=20))

    def peak(times: int) -> int:
        tracemalloc.start()
        for doc_id, doc in (pair for _ in range(times) for pair in one):
            task.sample(doc_id, doc)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(50)  # what is compiled and rendered once, few-shot examples among it
    assert peak(50) < 1.5 * peak(5)
