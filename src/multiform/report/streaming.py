"""The data of a report as a viewer sends them: read from files in parts, and kept small.

A run of ten thousand documents in six forms has hundreds of megabytes of samples. Of each sample only what the matrix
and the comparisons need stays in memory, with its place in the samples file, from which it is read when it is opened.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Condition, Lock, Thread
from typing import Any

from multiform.errors import MultiformError, reason
from multiform.forms import ScoredSample
from multiform.hashing import sha256
from multiform.report.page import BLOCK, ReportParts
from multiform.report.sample import Question, sample_entry, with_questions
from multiform.requests import Completion, GenerationRequest, Instance, LLOutput, Output, Request, RollingRequest
from multiform.results.compare import compare_forms
from multiform.results.export import compact_json
from multiform.results.extraction import ReadAnswer, read_answer, summarize_answers
from multiform.results.recorded import MALFORMED, RecordedRun, results_of_run
from multiform.results.results import Results
from multiform.results.samples import picture_file
from multiform.results.values import FormResult

#: Characters of a question that are kept until the form has been read: what its head is made of.
_QUESTION = 2000


@dataclass(frozen=True, slots=True)
class _IndexedForm:
    """Where the samples of a form are: the run, and for each sample its place in the file and that of its question."""

    run: RecordedRun
    form: str
    first_block: int
    places: array[int] = field(default_factory=lambda: array("Q"))
    questions: array[int] = field(default_factory=lambda: array("Q"))


class StreamedReport:
    """A report that is made in the background, and sent line by line while it is made.

    The first line has all but the samples, then each form has one, and the last has what needs all of them.
    """

    #: One report at a time, as each takes memory while it is made.
    _making = Lock()

    def __init__(self, runs: Sequence[RecordedRun], title: str) -> None:
        self._runs = runs
        self._title = title
        self._lines: list[bytes] = []
        self._ended = False
        self._changed = Condition()
        self._forms: list[_IndexedForm] = []
        self._blocks = 0
        #: What is wrong with the files, if they could not be read to their end.
        self.problem: str | None = None
        results = [results_of_run(run, samples=False) for run in runs]
        self._parts = ReportParts(results, title)
        self._append(self._parts.preview())
        Thread(target=self._make, args=(results,), daemon=True).start()

    def lines(self) -> Iterator[str]:
        """The lines, each as soon as it is there."""
        number = 0
        while True:
            with self._changed:
                while number == len(self._lines):
                    if self._ended:
                        return
                    self._changed.wait()
                line = self._lines[number]
            number += 1
            yield zlib.decompress(line).decode(errors="replace") + "\n"

    def block(self, number: int) -> list[dict[str, Any]] | None:
        """The samples of a block; None where there is none of this number."""
        with self._changed:  # a viewer that was started again reads the form before it gives the block
            while number >= self._blocks and not self._ended:
                self._changed.wait()
        if number >= self._blocks:
            return None
        form = [form for form in self._forms if form.first_block <= number and form.places][-1]
        first = (number - form.first_block) * BLOCK
        places, questions = form.places[first : first + BLOCK], form.questions[first : first + BLOCK]
        samples = form.run.samples_at(form.form, places)
        return [sample_entry(sample, start) for sample, start in zip(samples, questions, strict=True)]

    def picture(self, sha256: str) -> str | None:
        """An image of a sample in base64; None where the runs have not written it."""
        files = [picture_file(run.file.parent, sha256) for run in self._runs if sha256.isalnum()]
        data = next((file.read_bytes() for file in files if file.is_file()), None)
        return None if data is None else base64.b64encode(data).decode()

    def _append(self, part: Mapping[str, Any]) -> None:
        line = zlib.compress(compact_json(part).encode(errors="replace"), 1)
        with self._changed:
            self._lines.append(line)
            self._changed.notify_all()

    def _make(self, results: Sequence[Results]) -> None:
        try:
            with self._making:
                self._read_forms(results)
        except MultiformError as error:
            self.problem = str(error)
        except MALFORMED as error:
            self.problem = f"a file has an unexpected content: {reason(error)}"
        if self.problem is not None:
            self._append({"problem": self.problem})
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _read_forms(self, results: Sequence[Results]) -> None:
        small = _Shrinking(with_documents=len(self._runs) > 1)
        whole = []
        for number, (run, found) in enumerate(zip(self._runs, results, strict=True)):
            forms = []
            for form in found.forms:
                index = _IndexedForm(run, form.name, self._blocks)
                read, entry = self._form(index, form, number, small)
                forms.append(read)
                self._forms.append(index)
                self._blocks += math.ceil(len(index.places) / BLOCK)
                self._append({"form": {**entry, "first_block": index.first_block}})
            whole.append(replace(found, forms=forms, comparisons=compare_forms(forms, found.groups)))
        self._append(self._parts.comparisons(whole))

    def _form(
        self, index: _IndexedForm, form: FormResult, number: int, small: _Shrinking
    ) -> tuple[FormResult, dict[str, Any]]:
        """A form with small samples, and its entry."""
        places: list[int] = []
        asked: list[tuple[ScoredSample, Question]] = []
        others: list[ScoredSample] = []
        answers: list[ReadAnswer | None] = []
        scorer = form.primary.partition(",")[2] if form.estimates else None

        def primary() -> Iterator[ScoredSample]:
            nonlocal scorer
            for place, sample in index.run.samples(form.name):
                scorer = sample.scorer if scorer is None else scorer
                if sample.scorer == scorer:
                    places.append(place)
                    if form.extraction is None:  # of a run that is under way, which has not recorded it
                        answers.append(read_answer(form, sample))
                    yield sample
                else:
                    others.append(small.sample(sample, form.cluster))

        for sample, question in with_questions(form, primary()):
            index.questions.append(question.start)
            asked.append((small.sample(sample, form.cluster), replace(question, text=question.text[:_QUESTION])))
        index.places.extend(places)
        samples = [sample for sample, _ in asked]
        extraction = summarize_answers(answers)
        recorded = form.extraction if extraction is None else extraction.to_dict()
        form = replace(form, samples=[*samples, *others], extraction=recorded)
        entry = self._parts.form(form, number, asked)
        # The outputs of the first sample tell notes whether the form generates.
        return replace(form, samples=[*form.samples[:1], *map(small.scores, form.samples[1:])]), entry


class _Shrinking:
    """Makes samples small: equal parts of several samples are one object, and texts that nothing compares are gone."""

    def __init__(self, *, with_documents: bool) -> None:
        self._with_documents = with_documents
        self._shared: dict[Any, Any] = {}

    def sample(self, scored: ScoredSample, cluster: str | None) -> ScoredSample:
        """A sample without its prompt and the texts of completions."""
        sample = scored.sample
        document: dict[str, Any] = {} if cluster is None else {cluster: str(scored.doc.get(cluster))}
        instances: tuple[Instance, ...] = ()
        if self._with_documents:  # two runs are compared if their documents and prompts are the same
            document["document"] = sha256(json.dumps(dict(scored.doc), sort_keys=True, default=str))[:16]
        if sample.instances and (self._with_documents or scored.endings):
            first, prompt = sample.instances[0].request, sha256(sample.prompt)[:16]
            request: Request = RollingRequest(prompt)
            if isinstance(first, GenerationRequest):
                request = GenerationRequest(prompt, first.options)
            instances = (Instance(scored.doc_id, 0, request),)
        names = ("choices", "texts", "labels", "references", "gold", "permutation", "target")
        shared = {name: self._one(name, getattr(sample, name)) for name in names}
        return replace(
            scored,
            sample=replace(sample, **shared, doc=self._one("doc", document), instances=instances),
            outputs=tuple(map(_without_text, scored.outputs)),
            filtered=(),
            values=self._one("values", scored.values),
            steps=(),
        )

    def scores(self, scored: ScoredSample) -> ScoredSample:
        """A small sample without the outputs that no note needs."""
        thoughts = any(isinstance(output, Completion) and output.thought for output in scored.outputs)
        noted = scored.tied_choices or scored.context_truncated or scored.endings or thoughts
        return scored if noted else replace(scored, outputs=())

    def _one(self, kind: str, value: Any) -> Any:
        """The value, or the equal one that an earlier sample has."""
        try:
            key = tuple(value.items()) if isinstance(value, Mapping) else value
            return self._shared.setdefault((kind, key), value)
        except TypeError:  # a value that has no hash
            return value


def _without_text(output: Output) -> Output:
    if isinstance(output, LLOutput):
        return output
    # Whether there is a text, or a thought, is all that notes ask.
    text, thought = ("-" if part and part.strip() else part and "" for part in (output.text, output.thought))
    return replace(output, text=text or "", thought=thought)
