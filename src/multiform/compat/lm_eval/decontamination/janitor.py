"""Janitor: removes from a text what it has in common with others, by n-grams of words."""

from __future__ import annotations

import json
import re
import string
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TypeVar

from multiform.paths import replace_output

T = TypeVar("T")
Span = tuple[int, int]

#: lm-eval has a compiled module for this; here there is one way.
JANITOR_CPP = False


def form_ngrams(sequence: Iterable[T], n: int) -> Iterator[tuple[T, ...]]:
    """All runs of n items.

    >>> list(form_ngrams("abcd", 3))
    [('a', 'b', 'c'), ('b', 'c', 'd')]
    """
    items = iter(sequence)
    window = deque(islice(items, n - 1), maxlen=n)
    for item in items:
        window.append(item)
        yield tuple(window)


def word_ngrams(s: str, n: int) -> Iterator[str]:
    """All runs of n words."""
    return (" ".join(words) for words in form_ngrams(s.split(), n))


def split_indices(s: str) -> Iterator[tuple[str, Span]]:
    """The words of a text, each with where its first and last characters are."""
    return ((word.group(), (word.start(), word.end() - 1)) for word in re.finditer(r"\S+", s))


def word_ngrams_indices(s: str, n: int) -> Iterator[tuple[str, Span]]:
    """All runs of n words, each with where its first and last characters are."""
    for words in form_ngrams(split_indices(s), n):
        yield " ".join(word for word, _ in words), (words[0][1][0], words[-1][1][1])


class Janitor:
    """Knows the n-grams of some texts, and cuts them out of others together with what is around them."""

    def __init__(
        self,
        ngram_n: int = 13,
        window_to_remove: int = 200,
        too_dirty_cutoff: int = 10,
        minimum_slice_length: int = 200,
        delete_chars: str = string.punctuation,
    ) -> None:
        self.ngram_n = ngram_n
        self.window_to_remove = window_to_remove
        self.too_dirty_cutoff = too_dirty_cutoff
        self.minimum_slice_length = minimum_slice_length
        self.delete_chars = delete_chars
        self.dirt_ngrams: set[str] = set()
        self.translation_table = str.maketrans(string.ascii_uppercase, string.ascii_lowercase, delete_chars)

    def save_contamination_ngrams(self, filename: str) -> None:
        """Keep the n-grams in a file."""
        with replace_output(Path(filename)) as file:
            file.write_text(json.dumps(sorted(self.dirt_ngrams)), encoding="utf-8")

    def load_contamination_ngrams(self, filename: str) -> None:
        """Take the n-grams from a file that was saved here."""
        self.dirt_ngrams = set(json.loads(Path(filename).read_text(encoding="utf-8")))

    def normalize_string(self, s: str) -> str:
        """Lower-cased ASCII, without the characters that do not count."""
        return s.translate(self.translation_table)

    def register_contaminant(self, dirt_string: str) -> None:
        """Remember the n-grams of a text."""
        self.dirt_ngrams.update(word_ngrams(self.normalize_string(dirt_string), self.ngram_n))

    def clean(self, dirty_string: str) -> list[str]:
        """What is left of a text; nothing where too much of it is known."""
        contaminated = (
            (ngram, *span)
            for ngram, span in word_ngrams_indices(dirty_string, self.ngram_n)
            if self.normalize_string(ngram) in self.dirt_ngrams
        )
        return self._split_chunks(dirty_string, contaminated)

    register_contaminant_python = register_contaminant
    clean_python = clean

    def _split_chunks(self, dirty_string: str, dirty_parts: Iterable[tuple[str, int, int]]) -> list[str]:
        """The text between the parts, without a window around each; short slices are dropped."""
        chunks: list[str] = []
        begin, end = 0, -1
        for number, (_, first, last) in enumerate(dirty_parts):
            if number >= self.too_dirty_cutoff:
                return []
            start = max(0, first - self.window_to_remove)
            if start - begin > self.minimum_slice_length:
                chunks.append(dirty_string[begin:start])
            begin = end = min(len(dirty_string), last + self.window_to_remove)
        if end < len(dirty_string) - self.minimum_slice_length:
            chunks.append(dirty_string[end + 1 :])
        return chunks
