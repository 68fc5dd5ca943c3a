"""Random orders and samples of documents, without replacement.

A sample of 200 documents contains that of 100 with the same seed, so that a larger run reuses cached responses.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Mapping, Sequence

from multiform.errors import UsageError


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


def draw_documents(
    documents: Sequence[int], number: int, *, strata: Sequence[Hashable] | None = None, seed: int | None = 0
) -> list[int]:
    """A random sample of documents, in their own order.

    Every document has the same chance. `strata` holds the stratum of each document, such as its subject or the column
    of its cluster: each stratum then has its share of the sample, to within about one document.

    >>> draw_documents(range(1000), 5)
    [394, 430, 776, 864, 911]
    >>> sample = draw_documents(range(1000), 100, strata=["rare"] * 50 + ["common"] * 950)
    >>> sum(document < 50 for document in sample)
    5
    """
    if number < 1:
        raise UsageError(f"cannot draw {number} documents", where="--limit", hint="give a number of 1 or more")
    if strata is not None and len(strata) != len(documents):
        message = f"{len(strata)} strata for {len(documents)} documents"
        raise UsageError(message, where="--sample", hint="give the stratum of every document")
    names = [None] * len(documents) if strata is None else strata
    by_stratum: dict[Hashable, list[int]] = {}
    for document, name in zip(documents, names, strict=True):
        by_stratum.setdefault(name, []).append(document)
    generator = random.Random(seed)
    places: list[tuple[float, int]] = []
    for members in by_stratum.values():
        shuffled = generator.sample(members, len(members))
        start = generator.random()
        places += [((start + rank) / len(members), document) for rank, document in enumerate(shuffled)]
    chosen = {document for _, document in sorted(places)[:number]}
    return [document for document in documents if document in chosen]
