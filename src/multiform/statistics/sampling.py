"""Random orders and samples of documents."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence


def document_order(
    subjects: Mapping[str, Sequence[int]], *, equal_subjects: bool = False, seed: int | None = 0
) -> list[tuple[str, int]]:
    """The documents of one or several subjects in random order, each with its subject.

    Wherever a run stops, the documents so far are a fair sample: each is a random one of all documents, or with
    `equal_subjects` one of a random subject. The order then ends where a subject has no more documents, as
    those that are left would count too much.

    >>> order = document_order({"small": range(10), "large": range(1000)}, equal_subjects=True)
    >>> len(order) < 40, {subject for subject, _ in order} == {"small", "large"}
    (True, True)
    """
    generator = random.Random(seed)
    if not equal_subjects or len(subjects) == 1:
        order = [(subject, document) for subject, documents in subjects.items() for document in documents]
        generator.shuffle(order)
        return order
    remaining = {subject: list(documents) for subject, documents in subjects.items()}
    for documents in remaining.values():
        generator.shuffle(documents)
    names, order = list(remaining), []
    while remaining[subject := generator.choice(names)]:
        order.append((subject, remaining[subject].pop()))
    return order
