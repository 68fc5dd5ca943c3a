"""Checks of a run: its options and forms before a dataset is read, and its documents as they are rendered."""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from multiform.errors import ConfigError, DataError, UsageError, nearest
from multiform.forms import Form, Sample
from multiform.lint.findings import Finding, drop_silenced, summary
from multiform.lint.forms import corpus_findings, language_findings
from multiform.models import Model, models
from multiform.models.model import no_continuation, no_loglikelihoods
from multiform.models.registry import ModelEntry
from multiform.results.export import prepare_output
from multiform.run.executors.local import create_model
from multiform.run.options import RunOptions
from multiform.sandbox import chosen_sandbox
from multiform.scoring.judges import check_judges
from multiform.scoring.metrics.base import HubMetric
from multiform.scoring.scorers.ai_judge import AIJudge

logger = logging.getLogger("multiform")


def check_options(options: RunOptions) -> None:
    """Refuse options that exclude each other, files that do not exist, and an output folder that cannot be written."""
    if options.limit is not None and options.samples is not None:
        raise UsageError("limit and samples exclude each other", where="--samples", hint="give one of them")
    if options.sample != "first" and options.limit is None:
        message = f"{options.sample} says which documents a limit takes, and there is none"
        raise UsageError(message, where="sample", hint="add e.g. --limit 100, or leave it out")
    if options.ci_of != "questions" and options.until_ci is None:
        message = "it says which interval until_ci waits for, and there is no until_ci"
        raise UsageError(message, where="ci_of", hint="add e.g. --until_ci 0.03, or leave it out")
    if options.budget is not None and options.until_ci is not None:
        message = "a budget searches the best and worst form, until_ci measures every form"
        raise UsageError(message, where="until_ci", hint="give one of budget and until_ci")
    if options.stops_early and options.predict_only:
        message = "without scores nothing says where to stop"
        raise UsageError(message, where="predict_only", hint="leave it out, or leave budget and until_ci out")
    for name in options.decontamination_corpus:  # even where no task of the run reads it
        if not Path(name).exists():
            raise UsageError(f"no file '{name}'", where="--decontamination_corpus", hint="check the path")
    options.cluster  # noqa: B018  (refuses what is wrong about it)
    options.judge, options.labels, options.trackers, options.hub  # noqa: B018
    if options.output_path is not None and not str(options.output_path):
        hint = "give e.g. output_path='results'"
        raise UsageError("the name of the folder is empty", where="output_path", hint=hint)
    if options.output_path is not None:
        prepare_output(Path(options.output_path))
    elif options.log_samples:
        message = "there is no output_path to write samples to"
        raise UsageError(message, where="log_samples", hint="give e.g. output_path='results'")


def check_forms(options: RunOptions, forms: Sequence[Form]) -> None:
    """Refuse forms that the options do not fit."""
    run_names = [name for form in forms for name in (form.name, form.task_name)]
    for name in options.samples or {}:
        if name not in run_names:
            hint = nearest(name, run_names, listed="the tasks of this run are")
            raise UsageError(f"no task '{name}' in this run", where="--samples", hint=hint)
    check_consent(options, forms)
    check_output_types(forms)
    check_packages(forms)


def check_consent(options: RunOptions, forms: Sequence[Form]) -> None:
    """Refuse tasks that run generated code or code from the hub, or choose a judge, unless the user agreed to that."""
    confirmed = options.confirm_run_unsafe_code
    unsafe = [form for form in forms if form.config.unsafe_code]
    if unsafe and not confirmed:
        raise UsageError(
            "the task runs code that the model writes",
            where=unsafe[0].config.where("unsafe_code"),
            hint="add --confirm_run_unsafe_code if that is what you want",
        )
    if unsafe:
        chosen_sandbox()  # so that a missing one is not noticed after the model has run
    for form in forms:
        for metric in form.scorer.metrics:
            if isinstance(metric.fn, HubMetric):
                if not confirmed:
                    raise metric.fn.refusal().relocate(form.where("metric_list"))
                metric.fn.load()
    judged = judged_forms(forms)
    if options.judge and not judged:
        logger.warning("--judge_model and --judge_args change nothing: no task of this run has a judge")
    if options.judge_labels is not None and not judged:
        logger.warning("--judge_labels changes nothing: no task of this run has a judge")
    for form, scorer in judged:
        try:
            judges = scorer.judges  # refuses what only the user may choose
        except ConfigError as error:
            raise error.at(form.where("scorer") or form.name) from error
        check_judges(judges)


def judged_forms(forms: Sequence[Form]) -> list[tuple[Form, AIJudge]]:
    """The forms that have a judge, with it."""
    return [(form, scorer) for form in forms for scorer in form.scoring.scorers if isinstance(scorer, AIJudge)]


def check_output_types(forms: Sequence[Form]) -> None:
    """Refuse a task with choices that would be run as free generation, where nothing says that this is intended."""
    for form in forms:
        if not form.ignores_choices:
            continue
        message = "the task has choices but no format and no output_type: the model would write without seeing them"
        hint = (
            "add output_type: multiple_choice to have the choices ranked, or a format such as formats: mcqa; "
            "add output_type: generate_until if the model is to write one of them"
        )
        raise ConfigError(message, where=form.where("doc_to_choice"), hint=hint)


def check_packages(forms: Sequence[Form]) -> None:
    """Refuse forms whose metrics need a package that is not installed."""
    for form in forms:
        for metric in form.scorer.metrics:
            try:
                metric.check_package()
            except UsageError as error:
                raise error.at(form.where("metric_list") or form.name) from error


def check_model_fits(options: RunOptions, forms: Sequence[Form]) -> None:
    """Refuse forms that the model does not support, and generation arguments that it does not take.

    A server is probed for the log-likelihoods that forms need.
    """
    model, gen_kwargs, arguments = options.model, options.settings.gen_kwargs, options.model_arguments
    entry = models.get(model) if isinstance(model, str) and model in models else None
    _check_scoring(model, entry, [form for form in forms if form.output_type != "generate_until"], arguments)
    generating = [form for form in forms if form.generates]
    if gen_kwargs and not generating:
        logger.warning("--gen_kwargs changes nothing: no task of this run generates text")
    _check_stops(model, entry, forms, arguments)
    if not generating:
        return
    if entry is not None:
        _check_generation(entry, gen_kwargs, "--gen_kwargs")
        for form in generating:
            _check_generation(entry, form.generation_kwargs, form.where("generation_kwargs"))
    greedy = any(form.generation_kwargs.get("do_sample") is False for form in generating)
    if gen_kwargs.get("temperature") and greedy:
        logger.warning("--gen_kwargs temperature changes nothing where do_sample is false: add do_sample=true")


def _check_stops(model: Any, entry: ModelEntry | None, forms: Sequence[Form], arguments: Mapping[str, Any]) -> None:
    """Refuse `stop_at_answer` with a model that cannot stop there, and warn if it changes nothing."""
    if not any(form.settings.stop_at_answer for form in forms):
        return
    if not any(form.stops_at_answer for form in forms):
        logger.warning("--stop_at_answer changes nothing: no form reads the label with which a completion begins")
        return
    factory = model if entry is None else entry.load()
    if not getattr(factory, "stops_at_labels", False):
        name = model if isinstance(model, str) else getattr(model, "name", type(model).__name__)
        message = f"the model '{name}' cannot end a completion at a label"
        raise UsageError(message, where="--stop_at_answer", hint="leave it out, or use --model hf")
    if arguments.get("think_end_token") is not None or getattr(model, "think_end", None) is not None:
        message = "a model that thinks (think_end_token) answers after its thought, where no completion is ended early"
        raise UsageError(message, where="--stop_at_answer", hint="leave one of the two out")


def _check_generation(entry: ModelEntry, gen_kwargs: Mapping[str, Any], where: str | None) -> None:
    """Refuse generation arguments that the model does not take; forms keep the thinking budget where it gets texts."""
    try:
        entry.check_generation({k: value for k, value in gen_kwargs.items() if k != "thinking_budget"})
    except UsageError as error:
        raise error.relocate(where) from error


def _check_scoring(model: Any, entry: ModelEntry | None, scored: Sequence[Form], arguments: Mapping[str, Any]) -> None:
    """Refuse forms whose log-likelihoods the model does not compute."""
    if scored and entry is not None:
        if not entry.loglikelihoods:
            raise no_loglikelihoods(model, scored[0].name)
        model = create_model(model, arguments) if entry.probed_early else model
    if isinstance(model, Model):
        thinking = [form for form in scored if form.generates]
        if thinking and not model.continues_texts:
            raise no_continuation(thinking[0].name)
        for form in scored:
            model.check_scoring(labels=_scores_labels(form), form=form.name)


def _scores_labels(form: Form) -> bool:
    """Whether a form scores labels, such as letters, and nothing else."""
    if form.format is not None:
        return form.format.scored == "labels"
    choices = form.config.doc_to_choice
    return isinstance(choices, list) and all(len(str(choice).strip()) == 1 for choice in choices)


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
        column = form.cluster
        if column is not None and column not in sample.doc:
            raise DataError(
                f"doc {sample.doc_id} has no column '{column}'",
                where=form.where("metadata", "cluster") or form.name,
                hint=nearest(str(column), sample.doc, listed="columns"),
            )
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


def _choice_words(sample: Sample) -> str:
    indexes = sample.right_choices or ()
    return f"choice {' and '.join(str(index + 1) for index in indexes)}" if indexes else "none of the choices"


def settings_findings(forms: Sequence[Form], corpus: bool) -> list[Finding]:
    """The lint findings about the settings of forms; with a `corpus`, those about a missing one are left out."""
    findings: list[Finding] = []
    for form in forms:
        issues = [finding for finding in language_findings(form) if finding.level == "warning"]
        findings += drop_silenced(form, issues) if issues else []
    return findings if corpus else [*findings, *corpus_findings(forms)]


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
            words = _tokens(text)
            for gram in chain.from_iterable(_ngrams(words, length) for length in lengths):
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


def _texts(path: Path) -> Iterator[str]:
    """The texts of a corpus file: the `text` of each JSON line, or the whole file."""
    try:
        if path.suffix != ".jsonl":
            yield path.read_text(encoding="utf-8", errors="replace")
            return
        with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
            for number, line in enumerate(file, start=1):
                try:
                    yield str(json.loads(line)["text"]) if line.strip() else ""
                except (ValueError, KeyError, TypeError) as error:
                    hint = 'write {"text": "..."} on each line'
                    raise UsageError("not a JSON object with a 'text'", where=f"{path}:{number}", hint=hint) from error
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}"
        raise UsageError(message, where="--decontamination_corpus", hint="give .txt or .jsonl files") from error
