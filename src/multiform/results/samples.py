"""Samples in the layout of lm-eval: a line for each document and filter, with its prompts, responses and values.

`sample_line` writes a line; `scored_sample` reads one, of Multiform or of lm-eval. `Sidecars` writes what is beside
the samples files of a run, for a page: ``media/<sha256>.jpg`` has the images of prompts, small, and
``costs_<date>.jsonl`` what is not the same when responses are cached: how many tokens each response has and how many
seconds it took, by form and document. A run that is under way writes both as its documents are scored.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count, groupby
from pathlib import Path
from typing import Any, TypeAlias

from multiform.errors import MultiformError
from multiform.forms import Sample, ScoredSample
from multiform.forms.sample import Step
from multiform.hashing import sha256
from multiform.paths import open_file, replace_output
from multiform.prompts.media import Media, binary_summary
from multiform.requests import (
    Completion,
    GenerationRequest,
    Instance,
    LLOutput,
    LoglikelihoodRequest,
    Output,
    Request,
    RollingRequest,
)
from multiform.results.values import FormResult, metrics_in_order


def sample_lines(form: FormResult, sidecars: Sidecars | None = None) -> Iterator[dict[str, Any]]:
    """The lines of a samples file: all documents of the first scorer, then those of the next.

    `sidecars` writes what is beside it.
    """
    for sample in samples_in_order(form):
        if sidecars is not None:
            sidecars.add(form.name, sample)
        yield sample_line(sample, form.config)


def sample_line(sample: ScoredSample, config: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A document by one scorer: lm-eval's keys, then those that Multiform adds; values in the order of its task."""
    values = {name: sample.values[name] for name in metrics_in_order(sample.values, config or {})}
    metrics = [name for name, value in values.items() if not isinstance(value, str)]
    line = {**_request_fields(sample), "metrics": metrics, **_hashes(sample), **values}
    return {**line, **{key: value for key, value in _added_fields(sample).items() if key not in line}}


def task_hash(form: FormResult) -> str:
    """The hash over all documents, prompts and targets of a form."""
    return sha256("".join("".join(_hashes(sample).values()) for sample in samples_in_order(form)))


def samples_in_order(form: FormResult) -> Iterator[ScoredSample]:
    """All samples of the first scorer, then those of the next."""
    for scorer in dict.fromkeys(sample.scorer for sample in form.samples):
        yield from (sample for sample in form.samples if sample.scorer == scorer)


def _request_fields(sample: ScoredSample) -> dict[str, Any]:
    by_request = outputs_by_request(sample)
    return {
        "doc_id": sample.doc_id,
        "doc": dict(sample.doc),
        "target": str(sample.target),
        "arguments": {f"gen_args_{i}": _argument(repeats[0][0].request) for i, repeats in enumerate(by_request)},
        "resps": [
            [_response(output, instance.request) for instance, output in repeats if output is not None]
            for repeats in by_request
        ],
        "filtered_resps": [_response(output) for output in sample.filtered],
        "filter": sample.scorer,
    }


def outputs_by_request(sample: ScoredSample) -> list[list[tuple[Instance, Output | None]]]:
    """Every request with its output, repeats together; None where there is none, as a request failed."""
    outputs = sample.outputs if sample.failure is None else [None] * len(sample.instances)
    pairs = zip(sample.instances, outputs, strict=True)
    return [list(repeats) for _, repeats in groupby(pairs, key=lambda pair: _once(pair[0]))]


def _added_fields(sample: ScoredSample) -> dict[str, Any]:
    """The keys that Multiform adds to a line: prediction, gold, and all that `resps` does not say of the outputs."""
    scored = [output for output in sample.outputs if isinstance(output, LLOutput)]
    written = [output for output in sample.outputs if isinstance(output, Completion)]
    added: dict[str, Any] = {"prediction": sample.prediction, "gold": sample.gold}
    choices, labels = choices_and_labels(sample.sample)
    added |= {key: value for key, value in (("choices", choices), ("labels", labels)) if value}
    if sample.sample.permutation is not None:
        added["choice_order"] = list(sample.sample.permutation)
    if scored:
        added["loglikelihoods"] = [output.loglikelihood for output in scored]
        added["is_greedy"] = [output.is_greedy for output in scored]
        added["num_tokens"] = [output.tokens for output in scored]
    if sample.tied_choices:
        added["tied_choices"] = list(sample.tied_choices)
    if written:
        added["completions_truncated"] = [output.truncated for output in written]
        if any(output.finish_reason is not None for output in written):
            added["finish_reasons"] = [output.finish_reason for output in written]
        if any(output.thought is not None for output in written):
            added["thoughts"] = [output.thought for output in written]
    if sample.outputs:
        added["contexts_truncated"] = [output.context_truncated for output in sample.outputs]
    if sample.steps:
        values = [None if step.value is None else _response(step.value) for step in sample.steps]
        added["steps"] = [{"step": s.name, "value": value} for s, value in zip(sample.steps, values, strict=True)]
    return added if sample.failure is None else {**added, "failure": sample.failure}


def choices_and_labels(sample: Sample) -> tuple[list[str], list[str]]:
    """The texts of a sample's choices, and their labels in its prompt, where it has both."""
    texts = sample.texts or sample.choices
    labels = sample.labels or (sample.choices if sample.texts != sample.choices else ())
    return list(texts), list(labels if sample.texts else ())


def _hashes(sample: ScoredSample) -> dict[str, str]:
    return {
        "doc_hash": sha256(json.dumps(dict(sample.doc), indent=2, default=binary_summary, ensure_ascii=False)),
        "prompt_hash": sha256(sample.sample.prompt),
        "target_hash": sha256(str(sample.target)),
    }


def _once(instance: Instance) -> Any:
    """A key that is equal for repeats of the same generation, and different for all other requests."""
    request = instance.request
    return (request.context, request.options) if isinstance(request, GenerationRequest) else instance.idx


def _argument(request: Request) -> dict[str, Any]:
    """The arguments of a request; the third has its images and audio clips, as lm-eval has it."""
    arguments = {f"arg_{number}": argument for number, argument in enumerate(request.arguments)}
    if isinstance(request, RollingRequest) or not request.media:
        return arguments
    kinds = {"visual": "image", "audio": "audio"}
    listed = {name: [item.summary() for item in request.media if item.kind == kind] for name, kind in kinds.items()}
    return {**arguments, "arg_2": {name: summaries for name, summaries in listed.items() if summaries}}


def _response(output: Any, request: Request | None = None) -> Any:
    """A response as text, or nested lists of texts, as lm-eval writes it."""
    if isinstance(output, LLOutput):
        likelihood = str(output.loglikelihood)
        return likelihood if isinstance(request, RollingRequest) else [likelihood, str(output.is_greedy)]
    if isinstance(output, list | tuple):
        return [_response(part) for part in output]
    return output.text if isinstance(output, Completion) else str(output)


def _requests_with_outputs(line: Mapping[str, Any], folder: Path | None) -> tuple[list[Instance], list[Output]]:
    instances: list[Instance] = []
    outputs: list[Output] = []
    places, completions, likelihoods = count(), count(), count()
    for argument, responses in zip(_arguments(line["arguments"]), line["resps"], strict=True):
        for repeat, response in enumerate(responses or [None]):
            request = _request(*argument, repeat, folder)
            instances.append(Instance(line["doc_id"], len(instances), request))
            if response is not None:
                number = next(completions if isinstance(request, GenerationRequest) else likelihoods)
                outputs.append(_output(line, request, response, next(places), number))
    return instances, outputs


def _arguments(recorded: Any) -> list[tuple[Any, Any, Any]]:
    """The arguments of all requests; older files of lm-eval have lists where newer ones have objects."""
    listed = list(recorded.values()) if isinstance(recorded, Mapping) else list(recorded)
    values = [[*item.values()] if isinstance(item, Mapping) else [*item] for item in listed]
    return [(item[0], *[*item[1:3], None, None][:2]) for item in values]


def _request(context: Any, second: Any, media: Any, repeat: int, folder: Path | None) -> Request:
    shown = _recorded_media(media, folder)
    if isinstance(second, str):
        return LoglikelihoodRequest(context, second, shown)
    return RollingRequest(context) if second is None else GenerationRequest.of(context, second, repeat, shown)


def _recorded_media(argument: Any, folder: Path | None) -> list[Media]:
    """The media that `_argument` wrote the summaries of; images are beside the samples, if they were written there."""
    listed = argument.values() if isinstance(argument, Mapping) else ()
    return [
        Media(item["kind"], item["sha256"], str(item.get("size", "")), payload=_picture(folder, item["sha256"]))
        for items in listed
        for item in (items if isinstance(items, list) else ())
        if isinstance(item, Mapping) and {"kind", "sha256"} <= item.keys()
    ]


def _picture(folder: Path | None, sha256: Any) -> Path | bytes:
    file = None if folder is None or not str(sha256).isalnum() else picture_file(folder, sha256)
    return b"" if file is None or not file.is_file() else file


def _output(line: Mapping[str, Any], request: Request, response: Any, place: int, number: int) -> Output:
    """What `results/samples.py` wrote as a response, with what it added beside; `number` counts those of its kind."""
    cut = bool(_at(line, "contexts_truncated", place))
    if isinstance(request, GenerationRequest):
        truncated = bool(_at(line, "completions_truncated", number))
        return Completion(
            str(response), truncated, cut, _at(line, "finish_reasons", number), _at(line, "thoughts", number)
        )
    loglikelihood, greedy = response if isinstance(response, list) else (response, False)  # a rolling one has no flag
    tokens = _at(line, "num_tokens", number)
    return LLOutput(float(loglikelihood), str(greedy) == "True", tokens, context_truncated=cut)


def _at(line: Mapping[str, Any], key: str, place: int) -> Any:
    values = line.get(key) or ()
    return values[place] if place < len(values) else None


def scored_sample(line: Mapping[str, Any], folder: Path | None = None) -> ScoredSample:
    """The sample of one line of a samples file, as far as the line has its fields.

    `folder` is that of the run, with the images of its prompts.
    """
    instances, outputs = _requests_with_outputs(line, folder)
    ranked = [item.request.continuation for item in instances if isinstance(item.request, LoglikelihoodRequest)]
    choices = tuple(text.strip() for text in ranked) if len(ranked) > 1 else ()
    sample = Sample(
        doc_id=line["doc_id"],
        doc=line["doc"],
        target=line.get("target"),
        choices=choices,
        gold=_gold(line, choices),
        texts=tuple(map(str, line.get("choices") or ())),
        labels=tuple(line.get("labels") or ()),
        references=_references(line, instances),
        permutation=None if line.get("choice_order") is None else tuple(line["choice_order"]),
        instances=tuple(instances),
    )
    filtered = tuple(line.get("filtered_resps") or ())
    known = "prediction" in line
    return ScoredSample(
        sample=sample,
        outputs=tuple(outputs),
        scorer=str(line.get("filter", "none")),
        filtered=filtered,
        # What judges wrote is no metric.
        values={name: line[name] for name in (line.get("metrics") or ()) if name in line}
        | {name: text for name, text in line.items() if name.startswith("judge_text")},
        prediction=line["prediction"] if known else _prediction(choices, outputs, filtered),
        steps=tuple(Step(name=step["step"], value=step["value"]) for step in line.get("steps") or ()),
        failure=line.get("failure") if not outputs else None,
    )


def _references(line: Mapping[str, Any], instances: Sequence[Instance]) -> tuple[str, ...]:
    """The completions that count as right, where the line is Multiform's and the sample is generated."""
    if not instances or not isinstance(instances[0].request, GenerationRequest):
        return ()
    gold = line.get("gold")
    return tuple(map(str, gold)) if isinstance(gold, list) else () if gold is None else (str(gold),)


def _gold(line: Mapping[str, Any], choices: Sequence[str]) -> tuple[int, ...]:
    """The indexes of the right choices: as the line says, or by its target."""
    gold = line.get("gold", line.get("target"))
    indexes = []
    for value in gold if isinstance(gold, list) else [gold]:
        if isinstance(value, int) or (isinstance(value, str) and value.isdigit()):
            indexes.append(int(value))
        elif isinstance(value, str) and value.strip() in choices:
            indexes.append(choices.index(value.strip()))
    return tuple(index for index in indexes if index < len(choices))


def _prediction(choices: Sequence[str], outputs: Sequence[Output], filtered: Sequence[Any]) -> Any:
    """What the model picked or said, where the line has no such key."""
    scores = [output.loglikelihood for output in outputs if isinstance(output, LLOutput)]
    if choices and scores:
        return max(range(len(scores)), key=scores.__getitem__)
    return filtered[0] if filtered and not scores else None


#: The longest side of an image in pixels, and the most bytes of the images of a run.
_SIDE, _MOST_BYTES = 640, 100_000_000
#: The tokens and the seconds of a response, as far as they are known.
Cost: TypeAlias = tuple[int | None, float | None]


def media_of(sample: ScoredSample) -> tuple[Media, ...]:
    """The images and audio clips of a sample's prompt."""
    request = sample.instances[0].request if sample.instances else None
    return () if request is None or isinstance(request, RollingRequest) else request.media


def images_of(samples: Iterable[ScoredSample]) -> Iterator[Media]:
    """The images of samples whose content is known, each once."""
    seen: set[str] = set()
    for medium in (medium for sample in samples for medium in media_of(sample)):
        if medium.kind == "image" and medium.payload and medium.sha256 not in seen:
            seen.add(medium.sha256)
            yield medium


def small_jpeg(image: Media) -> bytes | None:
    """An image as a small JPEG; None where its file is gone or damaged."""
    try:
        picture = image.image().copy()
    except (MultiformError, OSError):
        return None
    picture.thumbnail((_SIDE, _SIDE))
    data = io.BytesIO()
    picture.convert("RGB").save(data, "JPEG", quality=82)
    return data.getvalue()


def picture_file(folder: Path, sha256: str) -> Path:
    """The file of an image of the runs in a folder."""
    return folder / "media" / f"{sha256}.jpg"


def costs_file(folder: Path, stamp: str) -> Path:
    """The file with the tokens and time of the responses of a run."""
    return folder / f"costs_{stamp}.jsonl"


class Sidecars:
    """Writes what is beside the samples files of a run as its samples pass by."""

    def __init__(self, folder: Path, stamp: str) -> None:
        self._folder = folder
        self._costs_file = costs_file(folder, stamp)
        #: The costs by form and document that are not written yet.
        self._costs: dict[str, dict[str, list[Cost]]] = {}
        self._seen: set[str] = set()
        self._size = 0

    def add(self, form: str, sample: ScoredSample) -> None:
        """Write the images of a sample, each once and as many as fit into 100 MB, and note its costs."""
        for image in images_of([sample]):
            file = picture_file(self._folder, image.sha256)
            if image.sha256 in self._seen or file.is_file() or self._size > _MOST_BYTES:
                continue
            self._seen.add(image.sha256)
            if (data := small_jpeg(image)) is not None:
                file.parent.mkdir(parents=True, exist_ok=True)
                with replace_output(file) as partial:
                    partial.write_bytes(data)
                self._size += len(data)
        # The samples file has the tokens of log-likelihoods.
        known = (output.seconds or (isinstance(output, Completion) and output.tokens) for output in sample.outputs)
        if any(known):
            costs = [(output.tokens, output.seconds) for output in sample.outputs]
            self._costs.setdefault(form, {})[str(sample.doc_id)] = costs

    def write_costs(self) -> None:
        """Append the costs that are not written yet, a line for each form."""
        if self._costs:
            with self._costs_file.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps({"form": form, "costs": c}) + "\n" for form, c in self._costs.items())
            self._costs = {}


def read_costs(folder: Path, stamp: str, form: str) -> dict[str, Any]:
    """The costs of a form's documents; empty where the file is missing or damaged."""
    costs: dict[str, Any] = {}
    damages = (AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError)
    with suppress(*damages), open_file(costs_file(folder, stamp)) as lines:
        for entry in map(json.loads, lines):
            costs |= entry["costs"] if entry["form"] == form else {}
    return costs


def with_costs(sample: ScoredSample, costs: Sequence[Any]) -> ScoredSample:
    """A sample whose responses have their tokens and time; as it is where there are not as many of them."""
    if len(costs) != len(sample.outputs):
        return sample
    pairs = zip(sample.outputs, costs, strict=True)
    return replace(sample, outputs=tuple(replace(o, tokens=tokens, seconds=s) for o, (tokens, s) in pairs))
