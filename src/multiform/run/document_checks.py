"""Checks of the documents of a run as they are rendered, and what they show: lint findings, contamination, power."""

from __future__ import annotations

import json
import logging
import re
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from math import comb
from pathlib import Path
from typing import Protocol, TypeVar

from multiform.errors import DataError, UsageError, nearest
from multiform.forms import Form, Sample
from multiform.lint.findings import Finding, drop_silenced, summary
from multiform.lint.forms import TasksLint, corpus_findings, language_findings
from multiform.scoring.metrics.base import RIGHT_OR_WRONG
from multiform.statistics.design import FLIP_RATE, Detectable, detectable_difference

logger = logging.getLogger("multiform")

K = TypeVar("K", bound=Hashable)
#: How many words in a row a document and a training corpus have to share.
_NGRAM = 13
_WORD = re.compile(r"\w+")


class AnswerChecks:
    """Checks samples one by one: forms of a task must agree about what is right, and clusters need their column."""

    def __init__(self, forms: Sequence[Form]) -> None:
        self._forms_of = Counter(form.task_name for form in forms)
        #: For each task and document that some forms have not seen yet, the first form that says what is right, with
        #: its sample, and how many forms are left.
        self._first: dict[tuple[str, int], tuple[tuple[Form, Sample] | None, int]] = {}

    def check(self, form: Form, sample: Sample) -> None:
        """Check a sample; raises a DataError where the run cannot be right."""
        self._check_cluster(form, sample)
        self._check_gold(form, sample)

    def _check_gold(self, form: Form, sample: Sample) -> None:
        """Refuse a run in which two forms of a task disagree about the right choice of a document."""
        document = form.task_name, sample.doc_id
        known, left = self._first.pop(document, (None, self._forms_of[form.task_name]))
        if known is None and sample.right_choices is not None:
            known = form, sample
        if left > 1:
            self._first[document] = known, left - 1
        if known is None or sample.right_choices is None:
            return
        first_form, first = known
        if first.right_choices != sample.right_choices and first.doc == sample.doc:
            readings = [
                f"{_choice_words(each)} in '{name}'" for each, name in ((first, first_form.name), (sample, form.name))
            ]
            message = f"two forms disagree about what is right: {' and '.join(readings)}"
            hint = "set answer_base: 0 or 1 if its answers are digits, or make doc_to_target an index"
            raise DataError(message, where=f"{form.where('doc_to_target')}: doc {sample.doc_id}", hint=hint)

    def _check_cluster(self, form: Form, sample: Sample) -> None:
        """Refuse a column of clusters that a document does not have."""
        column = form.cluster
        if column is not None and column not in sample.doc:
            raise DataError(
                f"doc {sample.doc_id} has no column '{column}'",
                where=form.where("metadata", "cluster") or form.name,
                hint=nearest(str(column), sample.doc, listed="columns"),
            )


class DocumentChecking:
    """Checks samples one by one, as `AnswerChecks` does, and what lint says about them.

    Lint findings about the documents are logged when all have been seen; with a `corpus`, those about a missing one
    are left out.
    """

    def __init__(self, forms: Sequence[Form], *, corpus: bool) -> None:
        self._forms = forms
        self._corpus = corpus
        self._lint = TasksLint(forms)
        self._answers = AnswerChecks(forms)
        self._has_logged = False

    def see(self, form: Form, sample: Sample) -> None:
        """Check a sample; raises a DataError where the run cannot be right."""
        self._answers.check(form, sample)
        self._lint.see(form, sample)

    def log_findings(self) -> None:
        """Log the findings about documents and settings, once."""
        if self._has_logged:
            return
        self._has_logged = True
        findings = self._lint.findings()
        for form in self._forms:
            mixed = [finding for finding in language_findings(form) if finding.level == "warning"]
            findings += drop_silenced(form, mixed) if mixed else []
        log_findings(findings if self._corpus else [*findings, *corpus_findings(self._forms)])


def _choice_words(sample: Sample) -> str:
    indexes = sample.right_choices or ()
    return f"choice {' and '.join(str(index + 1) for index in indexes)}" if indexes else "none of the choices"


def log_findings(findings: Sequence[Finding]) -> None:
    """Log the findings, one line for each kind."""
    for level, line in summary(findings) if findings else ():
        logger.log(logging.WARNING if level == "warning" else logging.INFO, "%s", line)


def contaminated_docs(forms: Sequence[Form], corpus: Sequence[str | Path]) -> dict[str, set[int] | None]:
    """The documents of each form that the corpus contains; None where nothing is to be checked."""
    dirty: dict[str, set[int] | None] = {}
    for form in forms:
        dirty[form.name] = None
        if corpus and form.config.should_decontaminate:
            docs = form.eval_docs
            queries = {doc_id: form.decontamination_query(docs[doc_id]) for doc_id in form.doc_ids()}
            dirty[form.name] = find_contaminated(queries, [Path(path) for path in corpus])
    return dirty


def find_contaminated(queries: Mapping[K, str], corpus: Iterable[Path], n: int = _NGRAM) -> set[K]:
    """The keys of the queries that share an n-gram with the corpus; a query of fewer words has to occur as a whole.

    The n-grams of the queries are held in memory and the corpus is read once, so that it can be of any size.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "corpus.txt")
    >>> _ = file.write_text("It is said that the quick, brown fox jumps.")
    >>> find_contaminated({1: "The quick brown fox!", 2: "A slow brown fox"}, [file], n=4)
    {1}
    """
    keys_by_ngram: dict[tuple[str, ...], list[K]] = {}
    for key, query in queries.items():
        for gram in _ngrams(_tokens(query), n):
            keys_by_ngram.setdefault(gram, []).append(key)
    lengths = sorted({len(gram) for gram in keys_by_ngram})
    contaminated_keys: set[K] = set()
    for path in corpus:
        for text in _texts(path):
            for gram in _windows(_tokens(text), lengths):
                contaminated_keys.update(keys_by_ngram.get(gram, ()))
    return contaminated_keys


def _tokens(text: str) -> list[str]:
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


class _Rendered(Protocol):
    """A sample of a form."""

    form: Form
    sample: Sample


def first_prompts(
    forms: Sequence[Form], rendered: Iterable[_Rendered], samples_of: Callable[[Form], Iterator[Sample]]
) -> str:
    """The first prompt of each form, for the log; those of forms that are not rendered yet come from `samples_of`."""
    prompts: dict[str, Sample] = {}
    for entry in rendered:
        if entry.sample.instances:  # a task may leave documents out
            prompts.setdefault(entry.form.name, entry.sample)
    names = {entry.form.name for entry in rendered}
    for form in forms:
        first = None if form.name in names else next((each for each in samples_of(form) if each.instances), None)
        if first is not None:
            prompts[form.name] = first
    in_order = [(form.name, prompts[form.name]) for form in forms if form.name in prompts]
    return "\n".join(f"=== {name}, doc {sample.doc_id}\n{sample.prompt}" for name, sample in in_order)


def detectable_differences(forms: Sequence[Form], documents: Mapping[str, int]) -> str | None:
    """The smallest difference between two forms that a run can detect; None if every task has one form.

    `documents` has the number of documents of each form. If tasks differ in it, the smallest and the largest task are
    named.
    """
    comparable: dict[str, list[Form]] = {}
    for form in forms:
        if next(iter(form.higher_is_better), None) in RIGHT_OR_WRONG and form.name in documents:
            comparable.setdefault(form.task_name, []).append(form)
    multi_form = [task for task in comparable.values() if _pairs(task)]
    if not multi_form:
        return None
    smallest = [
        detectable_difference(min(_clusters(form, documents[form.name]) for form in task), comparisons=_pairs(task))
        for task in multi_form
    ]
    detectable = sorted(smallest, key=lambda each: each.n, reverse=True)
    best, worst = detectable[0], detectable[-1]
    if best.difference is None:
        of_tasks = f" of {len(multi_form)} tasks" if len(multi_form) > 1 else ""
        return f"no difference between two forms{of_tasks} can be detected with {best.power:.0%} power (n={best.n})"
    differences = " to ".join(dict.fromkeys([_words(best), _words(worst)]))
    tasks = f" in {len(multi_form)} tasks" if len(multi_form) > 1 else ""
    flips = max(each.flip_rate for each in detectable)
    assumed = f"if they differ on {FLIP_RATE:.0%} of the documents" + (
        "" if flips == FLIP_RATE else ", or on more if that is too few"
    )
    return (
        f"smallest difference between two forms that the run can detect: {differences}{tasks}, "
        f"with {best.power:.0%} power {assumed}"
    )


def _words(detectable: Detectable) -> str:
    return f"{'none' if detectable.difference is None else f'{detectable.difference:.3f}'} (n={detectable.n})"


def _clusters(form: Form, documents: int) -> int:
    """The number of a form's clusters; of its documents, where these are independent."""
    column = form.cluster
    return documents if column is None else len({str(doc.get(column)) for _, doc in form.docs()})


def _pairs(forms: Sequence[Form]) -> int:
    """How many pairs of forms are compared; those of one output type are compared with each other."""
    return sum(comb(number, 2) for number in Counter(form.output_type for form in forms).values())
