"""Find the documents that a training corpus contains, by n-grams of words that both have.

The n-grams of the documents are held in memory and the corpus is read once, so that it can be of any size.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from multiform.errors import UsageError

DEFAULT_NGRAM = 13

K = TypeVar("K", bound=Hashable)
_WORD = re.compile(r"\w+")


def find_contaminated(queries: Mapping[K, str], corpus: Iterable[Path], n: int = DEFAULT_NGRAM) -> set[K]:
    """The keys of the queries that share an n-gram with the corpus; a query of fewer words has to occur as a whole.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "corpus.txt")
    >>> _ = file.write_text("It is said that the quick, brown fox jumps.")
    >>> find_contaminated({1: "The quick brown fox!", 2: "A slow brown fox"}, [file], n=4)
    {1}
    """
    keys_by_ngram: dict[tuple[str, ...], list[K]] = {}
    for key, query in queries.items():
        for gram in _ngrams(words(query), n):
            keys_by_ngram.setdefault(gram, []).append(key)
    lengths = sorted({len(gram) for gram in keys_by_ngram})
    contaminated_keys: set[K] = set()
    for path in corpus:
        for text in _texts(path):
            for gram in _windows(words(text), lengths):
                contaminated_keys.update(keys_by_ngram.get(gram, ()))
    return contaminated_keys


def words(text: str) -> list[str]:
    """The words of a text, lower-cased, without punctuation."""
    return _WORD.findall(text.lower())


def _ngrams(tokens: Sequence[str], n: int) -> Iterator[tuple[str, ...]]:
    size = min(n, len(tokens))
    if size:
        for start in range(len(tokens) - size + 1):
            yield tuple(tokens[start : start + size])


def _windows(tokens: Iterable[str], lengths: Sequence[int]) -> Iterator[tuple[str, ...]]:
    window: deque[str] = deque(maxlen=max(lengths, default=0))
    for token in tokens:
        window.append(token)
        for length in lengths:
            if length <= len(window):
                yield tuple(window)[len(window) - length :]


def _texts(path: Path) -> Iterator[str]:
    """The texts of a corpus file: the `text` of each JSON line, or the whole file."""
    try:
        if path.suffix != ".jsonl":
            yield path.read_text(encoding="utf-8", errors="replace")
            return
        with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
            for number, line in enumerate(file, start=1):
                yield _record(line, path, number)
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}"
        raise UsageError(message, where="--decontamination_corpus", hint="give .txt or .jsonl files") from error


def _record(line: str, path: Path, number: int) -> str:
    try:
        return str(json.loads(line)["text"]) if line.strip() else ""
    except (ValueError, KeyError, TypeError) as error:
        hint = 'write {"text": "..."} on each line'
        raise UsageError("not a JSON object with a 'text'", where=f"{path}:{number}", hint=hint) from error
