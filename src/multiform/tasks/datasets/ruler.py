"""The rows of RULER (arXiv:2404.06654): texts of a wanted length that hide what is asked for.

Thirteen tasks of the published structure; the sentences around the hidden facts and the lists of words are our own.
A row has `input`, `gen_prefix` (the beginning of the answer), `outputs` (what the answer has to contain), `length`
in tokens with those to generate, and `max_length`.
"""

from __future__ import annotations

import json
import logging
import random
import re
import string
import tomllib
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from multiform.errors import ConfigError, DataError, nearest
from multiform.tasks.config import TaskConfig
from multiform.tasks.datasets.documents import load_dataset

logger = logging.getLogger("multiform")


@dataclass(frozen=True, slots=True)
class Needles:
    """The settings of a task of needles in a haystack."""

    haystack: str
    keys: str = "words"
    values: str = "numbers"
    num_keys: int = 1
    num_values: int = 1
    num_queries: int = 1


#: A sentence of noise, lists of words, and the settings of tasks.
_TEXTS = tomllib.loads(Path(__file__).with_name("ruler.toml").read_text(encoding="utf-8"))
_NOISE, _ADJECTIVES, _NOUNS = _TEXTS["noise"], _TEXTS["adjectives"].split(), _TEXTS["nouns"].split()
NEEDLES = {task: Needles(**settings) for task, settings in _TEXTS["needles"].items()}
#: The tokens to generate for each task.
TOKENS = {**dict.fromkeys(NEEDLES, 128), "vt": 30, "cwe": 120, "fwe": 50, "qa_1": 32, "qa_2": 32}
Problem = tuple[str, str, list[str]]


def generate(
    *,
    ruler_task: str,
    max_seq_lengths: Sequence[int] = (4096,),
    samples: int = 500,
    seed: int = 42,
    tokenizer: str | None = None,
    pretrained: str | None = None,
    haystack: str | None = None,
    dataset_mirror: Path | None = None,
    **_: Any,
) -> dict[str, list[dict[str, Any]]]:
    """The rows of a task for each length: `samples` of them, whose prompts have at most so many tokens.

    `haystack` is a text file to hide needles in, instead of Paul Graham's essays from the hub.
    """
    if ruler_task not in TOKENS:
        hint = nearest(ruler_task, list(TOKENS), listed="tasks")
        raise ConfigError(f"RULER has no task '{ruler_task}'", where="metadata.ruler_task", hint=hint)
    if not isinstance(max_seq_lengths, list | tuple) or not all(isinstance(n, int) and n > 0 for n in max_seq_lengths):
        hint = "write e.g. --metadata '{\"max_seq_lengths\": [4096, 8192]}'"
        raise ConfigError("expected a list of lengths in tokens", where="metadata.max_seq_lengths", hint=hint)
    count = counter(tokenizer or pretrained)
    rows: list[dict[str, Any]] = []
    for length in max_seq_lengths:
        sample = _writer(ruler_task, length, haystack, dataset_mirror)
        rows += _rows(sample, count, length, TOKENS[ruler_task], samples, seed)
    return {"test": rows}


def counter(tokenizer: str | None) -> Callable[[str], int]:
    """A function that counts tokens; without a tokenizer, an estimate that is rather too high."""
    if tokenizer is None:
        logger.warning("RULER: no tokenizer is known, so lengths are estimated; add tokenizer=NAME to the metadata")
        return lambda text: len(re.findall(r"[^\W\d_]{1,6}|\d|[^\w\s]|_", text))
    from multiform.models.tokenizer import load_tokenizer

    loaded = load_tokenizer(tokenizer)
    return lambda text: len(loaded.encode(text, add_special_tokens=False))


def _writer(
    task: str, length: int, haystack: str | None, mirror: Path | None
) -> Callable[[random.Random, int], Problem]:
    """The function that writes a sample of a task from a number of units of its haystack."""
    if task in NEEDLES:
        essay = _essay(haystack, mirror) if NEEDLES[task].haystack == "essay" else ()
        return lambda rng, size: needles_sample(rng, size, NEEDLES[task], essay)
    if task.startswith("qa_"):
        questions, passages = _squad(mirror) if task == "qa_1" else _hotpot(mirror)
        return lambda rng, size: _qa_sample(rng, size, questions, passages)
    if task == "cwe":
        often, seldom = (30, 3) if length >= 4096 else (6, 1)
        return lambda rng, size: _cwe_sample(rng, size, often, seldom)
    return {"vt": _vt_sample, "fwe": _fwe_sample}[task]


def _rows(
    sample: Callable[[random.Random, int], Problem],
    count: Callable[[str], int],
    length: int,
    to_generate: int,
    samples: int,
    seed: int,
) -> Iterator[dict[str, Any]]:
    """Rows with the largest haystack that fits into the length."""

    def tokens(index: int, size: int) -> tuple[int, Problem]:
        problem = sample(random.Random(f"{seed}:{index}"), size)
        return count(problem[0] + " " + problem[1]) + to_generate, problem

    low, high = 1, 2
    while tokens(0, high)[0] <= length and high < length:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if tokens(0, middle)[0] <= length else (low, middle)
    for index in range(samples):
        size = low
        used, (text, prefix, outputs) = tokens(index, size)
        while used > length and size > 1:
            size = max(1, size - max(1, size // 50))
            used, (text, prefix, outputs) = tokens(index, size)
        if used > length:
            message = f"RULER: {length} tokens are too few for the shortest prompt, which has {used}"
            raise ConfigError(message, where="metadata.max_seq_lengths", hint="choose a larger length")
        yield {
            "index": index,
            "input": text,
            "gen_prefix": prefix,
            "outputs": outputs,
            "length": used,
            "max_length": length,
        }


def _value(rng: random.Random, kind: str) -> str:
    if kind == "numbers":
        return str(rng.randint(1_000_000, 9_999_999))
    if kind == "uuids":
        return str(uuid.UUID(int=rng.getrandbits(128), version=4))
    return f"{rng.choice(_ADJECTIVES)}-{rng.choice(_NOUNS)}"


def _different(rng: random.Random, kind: str, number: int) -> list[str]:
    values: dict[str, None] = {}
    while len(values) < number:
        values[_value(rng, kind)] = None
    return list(values)


def needles_sample(rng: random.Random, size: int, settings: Needles, essay: Sequence[str] = ()) -> Problem:
    """A haystack of `size` sentences, lines or other needles, with the needles in random places."""
    kind = settings.values

    def needle(key: str, value: str) -> str:
        return f"One of the special magic {kind} for {key} is: {value}."

    others = size if settings.haystack == "needles" else 0
    keys = _different(rng, settings.keys, settings.num_keys + others)
    asked, spare = keys[: settings.num_keys], keys[settings.num_keys :]
    values = {key: _different(rng, kind, settings.num_values) for key in asked}
    hidden = [needle(key, value) for key in asked for value in values[key]]
    if settings.haystack == "needles":
        lines = [needle(key, _value(rng, kind)) for key in spare]
    elif settings.haystack == "noise":
        lines = [_NOISE] * size
    else:
        lines = [essay[place % len(essay)] for place in range(size)]
    for line in rng.sample(hidden, len(hidden)):
        lines.insert(rng.randint(0, len(lines)), line)
    context = (" " if settings.haystack == "essay" else "\n").join(lines)
    queries = rng.sample(asked, settings.num_queries)
    outputs = [value for key in queries for value in values[key]]
    query = queries[0] if len(queries) == 1 else f"{', '.join(queries[:-1])}, and {queries[-1]}"
    single, one = len(outputs) == 1, kind.removesuffix("s")
    opening = f"A special magic {one} is" if single else f"Some special magic {kind} are"
    what = f"What is the special magic {one}" if single else f"What are all the special magic {kind}"
    text = f"{opening} hidden in the following text. Remember what you find, you will be asked about it.\n{context}\n"
    answer = f"The special magic {one if single else kind} for {query} in the text {'is' if single else 'are'}"
    return f"{text}{what} for {query} in the text?", answer, outputs


def _vt_sample(rng: random.Random, size: int) -> Problem:
    """Five variables, each assigned the one before it, between lines of noise."""
    names = [""]
    while len(set(names)) < 5 or "" in names:
        names = ["".join(rng.choices(string.ascii_uppercase, k=5)) for _ in range(5)]
    value = rng.randint(10_000, 99_998)
    chain = [f"VAR {names[0]} = {value}"]
    chain += [f"VAR {after} = VAR {before} " for before, after in pairwise(names)]
    lines = [_NOISE] * size
    places = sorted(rng.randint(0, len(lines)) for _ in chain)
    for shift, (place, line) in enumerate(zip(places, chain, strict=True)):
        lines.insert(place + shift, line)
    context = "\n".join(lines)
    text = f"Follow the assignments of variables that are hidden in the following text.\n\n{context}\n"
    question = f"Question: Which variables have the value {value} according to the text?"
    return f"{text}{question}", f"Answer: These {len(names)} variables have the value {value}:", names


@cache
def _words() -> tuple[str, ...]:
    """Single words, then compounds, for lists that need more of them."""
    compounds = [adjective + noun for adjective in _ADJECTIVES for noun in _NOUNS]
    random.Random(0).shuffle(compounds)
    return (*_ADJECTIVES, *(noun for noun in _NOUNS if noun not in _ADJECTIVES), *compounds)


def _cwe_sample(rng: random.Random, size: int, often: int, seldom: int) -> Problem:
    """A numbered list in which ten words are far more frequent than the others, after an example of the same kind."""
    pool = _words()[: max(350, size + 60)]
    words = rng.sample(pool, size + 10 + 40)
    rare, shown_often, shown_seldom = (30, 10, 3) if often == 30 else (10, 3, 1)
    example = _word_list(rng, words[:10], words[10 : 10 + rare], shown_often, shown_seldom)
    context = _word_list(rng, words[40:50], words[50:], often, seldom)
    question = "Question: What are the 10 most common words in the list?"
    opening = "Below is a numbered list of words, of which some are far more common than others. Remember those."
    shown = " ".join(f"{number}. {word}" for number, word in enumerate(words[:10], start=1))
    answer = "Answer: The 10 most common words in the list are:"
    return f"{opening}\n{example}\n{question} {answer} {shown}\n{opening}\n{context}\n{question}", answer, words[40:50]


def _word_list(rng: random.Random, common: Sequence[str], rare: Sequence[str], often: int, seldom: int) -> str:
    words = [*common] * often + [*rare] * seldom
    rng.shuffle(words)
    return " ".join(f"{number}. {word}" for number, word in enumerate(words, start=1))


def _fwe_sample(rng: random.Random, size: int) -> Problem:
    """Coded words with the frequencies of a zeta distribution (exponent 2), of which the most frequent is noise."""
    names = ["..."]
    while len(names) < 2000:
        names.append("".join(rng.choices(string.ascii_lowercase, k=6)))
    total, scale = 20 + size, 6 / 3.141592653589793**2
    counts = [round(total * scale / rank**2) for rank in range(1, len(names) + 1)]
    words = [name for name, number in zip(names, counts, strict=True) for _ in range(number)]
    rng.shuffle(words)
    text = "Find the three most frequent coded words in the following text; the dots between them do not count.\n"
    question = "Question: Which three coded words are the most frequent in the text?"
    return f"{text}{' '.join(words)}\n{question}", "Answer: The three most frequent words are:", names[1:4]


Question = tuple[str, list[str], list[str]]


def _qa_sample(rng: random.Random, size: int, questions: Sequence[Question], passages: Sequence[str]) -> Problem:
    """A question with the passages that answer it, among others."""
    question, answers, golden = rng.choice(questions)
    others = [passage for passage in rng.sample(passages, min(size, len(passages))) if passage not in golden]
    shown = [*golden, *others[: max(0, size - len(golden))]]
    rng.shuffle(shown)
    context = "\n\n".join(f"Document {number}:\n{passage}" for number, passage in enumerate(shown, start=1))
    instruction = "Answer the question from the documents. Give the answer alone, without other words."
    text = f"{instruction}\n\nThe documents:\n\n{context}\n\n{instruction}\n\nQuestion: {question}"
    return text, "Answer:", answers


def _rows_of(path: str, name: str | None, split: str, mirror: Path | None) -> list[Mapping[str, Any]]:
    config = TaskConfig(task="ruler", dataset_path=path, dataset_name=name, test_split=split)
    return list(load_dataset(config, mirror)[split])


def _squad(mirror: Path | None) -> tuple[list[Question], list[str]]:
    rows = _rows_of("rajpurkar/squad_v2", "squad_v2", "validation", mirror)
    questions = [
        (row["question"], list(row["answers"]["text"]), [row["context"]]) for row in rows if row["answers"]["text"]
    ]
    return questions, list(dict.fromkeys(row["context"] for row in rows))


def _hotpot(mirror: Path | None) -> tuple[list[Question], list[str]]:
    rows = _rows_of("hotpotqa/hotpot_qa", "distractor", "validation", mirror)
    questions, passages = [], {}
    for row in rows:
        texts = {title: f"{title}\n{''.join(sentences)}" for title, sentences in
                 zip(row["context"]["title"], row["context"]["sentences"], strict=True)}  # fmt: skip
        passages.update(dict.fromkeys(texts.values()))
        golden = [texts[title] for title in dict.fromkeys(row["supporting_facts"]["title"]) if title in texts]
        questions.append((row["question"], [row["answer"]], golden))
    return questions, list(passages)


def _essay(haystack: str | None, mirror: Path | None) -> list[str]:
    """The sentences of the haystack."""
    if haystack is not None:
        try:
            text = Path(haystack).expanduser().read_text(encoding="utf-8")
        except OSError as error:
            message = f"the haystack cannot be read: {error.strerror}: {haystack}"
            raise DataError(message, where="metadata.haystack", hint="name a text file") from error
        text = json.loads(text)["text"] if haystack.endswith(".json") else text
    else:
        try:
            text = " ".join(row["text"] for row in _rows_of("baber/paul_graham_essays", None, "train", mirror))
        except DataError as error:
            hint = 'or name a text file of your own: --metadata \'{"haystack": "FILE"}\''
            raise DataError(f"RULER hides needles in essays, and {error.what}", hint=f"{error.hint}, {hint}") from error
    sentences = re.split(r"(?<=[.!?])\s+", " ".join(text.split()))
    if not any(sentences):
        raise DataError("the haystack is empty", where="metadata.haystack", hint="name a text file with sentences")
    return sentences
