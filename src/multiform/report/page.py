"""The report's page: one file with its style, its script and its data, without any network request.

The data are a main part, blocks of samples that are decompressed when they are opened, and pictures.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from multiform.forms import ScoredSample
from multiform.models.identity import package_version
from multiform.paths import replace_output
from multiform.report.entries import (
    form_entry,
    question_heads,
    task_entries,
    variation_table,
    wording_entries,
)
from multiform.report.overview import overview
from multiform.report.sample import Question, sample_entry, with_questions
from multiform.results.charts import short_formats
from multiform.results.export import compact_json
from multiform.results.notes import stop_lines
from multiform.results.provenance import arguments_text, command, usage_words
from multiform.results.results import Results
from multiform.results.samples import images_of, small_jpeg
from multiform.results.values import FormResult, GroupResult

#: The page's script, which tools/page builds from its sources.
SCRIPT = "app.js"

_LONGEST_TITLE = 80


def write_report(runs: Sequence[Results], path: str | Path, *, title: str | None = None) -> Path:
    """Write a report on one or more runs as an HTML file that holds everything it needs; returns its path.

    >>> from multiform import evaluate
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_report([evaluate(model="dummy", tasks="quiz@mcqa", limit=4)], f"{folder}/report.html")
    ...     "<title>" in path.read_text(encoding="utf-8")
    True
    """
    path = Path(path)
    with replace_output(path) as partial, partial.open("w", encoding="utf-8") as file:
        file.writelines(report_page(runs, title=title))
    return path


def report_page(runs: Sequence[Results], *, title: str | None = None) -> Iterator[str]:
    """The page, in parts."""
    name = title or _title(runs)
    data = payload(runs, title=name)
    script = asset(SCRIPT)
    style = asset("style.css")
    sources = f"script-src {_hash(script)}; style-src {_hash(style)}; img-src data:"
    policy = f"default-src 'none'; {sources}; base-uri 'none'"
    marker = "<!-- data -->"
    page = Template(asset("page.html")).substitute(
        policy=policy,
        version=package_version("multiform") or "",
        title=escape(name),
        style=style,
        help=asset("help.html"),
        data=marker,
        script=script,
    )
    before, after = page.split(marker)
    yield before
    yield _data_block("data", data.main)
    yield from (_data_block(f"samples-{number}", block) for number, block in enumerate(data.blocks))
    yield from (_data_block(f"media-{sha256}", picture) for sha256, picture in data.pictures.items())
    yield after


def _title(runs: Sequence[Results]) -> str:
    """The outermost groups, and the tasks that are in none."""
    inside = {name for results in runs for group in results.groups for name in group.forms}
    groups = [group.path for results in runs for group in results.groups if group.depth == 0]
    tasks = [form.task for results in runs for form in results.forms if form.name not in inside]
    name = ", ".join(dict.fromkeys([*groups, *tasks]))
    return name if len(name) <= _LONGEST_TITLE else f"{name[: _LONGEST_TITLE - 1]}…"


def asset(name: str) -> str:
    """The text of a file that comes with the package."""
    return files("multiform.report").joinpath("assets", name).read_text(encoding="utf-8")


def _data_block(name: str, value: Any) -> str:
    """A value as a block of the page: base64, which no text can break out of."""
    packed = zlib.compress(compact_json(value).encode(errors="replace"), 6)
    return f'<script type="application/octet-stream" id="{name}">{base64.b64encode(packed).decode()}</script>\n'


def _hash(text: str) -> str:
    """A source of the page's policy that allows this text alone."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


#: Samples in a block.
BLOCK = 200
#: The longest name of a run that charts show whole.
_LONGEST_LABEL = 16
#: The most bytes of all images of a page.
_PICTURE_BYTES = 12_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """The data of a page: `main` is needed at once, each of `blocks` when a sample in it is opened or searched.

    `pictures` are the images of samples, as JPEG in base64, by their SHA-256.
    """

    main: Mapping[str, Any]
    blocks: Sequence[Sequence[Mapping[str, Any]]]
    pictures: Mapping[str, str]


def payload(runs: Sequence[Results], *, title: str) -> Payload:
    """The data of a report on these runs."""
    parts = ReportParts(runs, title)
    forms: list[dict[str, Any]] = []
    blocks: list[list[dict[str, Any]]] = []
    for number, results in enumerate(runs):
        for form in results.forms:
            asked = list(with_questions(form, form.primary_samples))
            forms.append({**parts.form(form, number, asked), "first_block": len(blocks)})
            rows = [sample_entry(sample, question.start) for sample, question in asked]
            blocks += [rows[at : at + BLOCK] for at in range(0, len(rows), BLOCK)]
    main = {**parts.frame(), "forms": forms, **parts.comparisons(runs)}
    samples = (sample for results in runs for form in results.forms for sample in form.samples)
    return Payload(main=main, blocks=blocks, pictures=_pictures(samples))


def _pictures(samples: Iterable[ScoredSample]) -> dict[str, str]:
    """The images of samples as JPEG in base64, by their SHA-256; what does not fit into a page any more is left out."""
    pictures: dict[str, str] = {}
    size = 0
    for image in images_of(samples):
        data = small_jpeg(image) if size <= _PICTURE_BYTES else None
        if data is not None:
            pictures[image.sha256] = base64.b64encode(data).decode()
            size += len(pictures[image.sha256])
    return pictures


class ReportParts:
    """The parts of a report's main data, in the order in which they can be made as samples are read.

    Only `form` needs the samples in full; `comparisons` needs what each scored. `runs` may be without samples.
    """

    def __init__(self, runs: Sequence[Results], title: str) -> None:
        self.runs = runs
        self.title = title
        self.labels = run_labels(runs)
        self.short_labels = short_run_labels(self.labels)
        self.shorts = short_formats(form for results in runs for form in results.forms)
        self._heads: dict[str, dict[int, str]] = {}

    def frame(self) -> dict[str, Any]:
        """What is said of the runs as such."""
        groups = [group.path for results in self.runs for group in results.groups if group.estimates]
        return {
            "title": self.title,
            "runs": [_run(*run) for run in zip(self.runs, self.labels, self.short_labels, strict=True)],
            "groups": list(dict.fromkeys(groups)),
            "variations": variation_table(self.shorts),
        }

    def form(self, form: FormResult, run: int, asked: Sequence[tuple[ScoredSample, Question]] = ()) -> dict[str, Any]:
        """A form with what each of its documents scored."""
        known = self._heads.setdefault(form.task, {})
        fresh = [(sample.doc_id, question.text) for sample, question in asked if sample.doc_id not in known]
        known.update(zip((doc for doc, _ in fresh), question_heads([text for _, text in fresh]), strict=True))
        short = self.shorts[form.format_label or "as written"]
        return {**form_entry(form, run, asked, short), "block_size": BLOCK}

    def preview(self) -> dict[str, Any]:
        """What can be said before any sample is read: the scores of all forms."""
        forms = [self.form(form, number) for number, results in enumerate(self.runs) for form in results.forms]
        return {**self.frame(), "forms": forms, "overview": overview(self.runs, self.short_labels)}

    def comparisons(self, runs: Sequence[Results]) -> dict[str, Any]:
        """What needs the scores of all forms, which `runs` have."""
        return {
            "tasks": task_entries(runs, self.shorts),
            "wording_changes": wording_entries(runs, self.short_labels),
            "overview": overview(runs, self.short_labels),
            "heads": self._heads,
        }


def run_labels(runs: Sequence[Results]) -> list[str]:
    """The label of each run: its model, with the date where one model ran twice."""
    names = [results.model_name for results in runs]
    models = [name if len(name) <= 40 else f"…{name[-39:]}" for name in names]
    dates = [minute(results) for results in runs]
    labels = [m if models.count(m) == 1 else f"{m} {d}" for m, d in zip(models, dates, strict=True)]
    return [
        label if labels.count(label) == 1 else f"{label} #{labels[: n + 1].count(label)}"
        for n, label in enumerate(labels)
    ]


def short_run_labels(labels: Sequence[str]) -> list[str]:
    """The short label of each run in charts: its label, or a number where any of several labels is too long.

    >>> short_run_labels(["base", "tuned"]), short_run_labels(["base 2026-01-02 03:04", "base 2026-01-03 03:04"])
    (['base', 'tuned'], ['run 1', 'run 2'])
    """
    if len(labels) == 1 or all(len(label) <= _LONGEST_LABEL for label in labels):
        return list(labels)
    return [f"run {number}" for number in range(1, len(labels) + 1)]


def minute(results: Results) -> str:
    """When a run began, to the minute; lm-eval's files have seconds since 1970 alone."""
    date = results.provenance.get("date_iso") or results.provenance.get("date") or ""
    text = datetime.fromtimestamp(date).isoformat() if isinstance(date, int | float) else str(date)
    return text[:16].replace("T", " ")


def setting_words(entries: Sequence[FormResult | GroupResult], results: Results) -> Iterator[str]:
    """The few-shot examples that forms or groups have in common, and that prompts are written with a chat template."""
    shots = {entry.num_fewshot for entry in entries}
    if len(shots) == 1 and any(shots):
        yield f"{shots.pop()}-shot"
    if results.provenance.get("chat_template"):
        yield "chat"


def _run(results: Results, label: str, short_label: str) -> dict[str, Any]:
    about = results.provenance
    model = f"{results.run.get('model')} {arguments_text(results.run.get('model_args'))}".strip()
    name = results.model_name
    names = ("date_iso", "multiform_version", "lm_eval_version", "transformers_version", "git_hash", "model_identity")
    facts = [(name, about[name]) for name in names if about.get(name)]
    if results.status != "complete":
        facts.insert(0, ("status", f"partial: the run was {results.status}"))
    return {
        "label": label,
        "short": short_label,
        "model": model if name in model else f"{name} · {model}",
        "date": minute(results),
        "seconds": about.get("total_evaluation_time_seconds"),
        "facts": [("model", model), *facts],
        "config": dict(results.run),
        "environment": about.get("pretty_env_info"),
        "command": command(results),
        "settings": list(setting_words(results.forms, results)),
        "usage": usage_words(about.get("usage")),
        "notes": stop_lines(results.run.get("budget") or ()),
    }
