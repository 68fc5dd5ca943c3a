"""Samples files, read back: lines of Multiform, and of lm-eval."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from multiform.errors import DataError, reason
from multiform.forms import Sample, ScoredSample
from multiform.forms.sample import Step
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

#: The argument of a request, as a samples file has it: its context or text, then its continuation or options.
Argument = tuple[Any, ...]


def read_samples(path: Path) -> Iterator[ScoredSample]:
    """The samples of a form, from its samples file."""
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                yield scored_sample(json.loads(line))
            except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
                what = f"is no line of a samples file: {reason(error)}"
                raise DataError(what, where=f"{path}: line {number}", hint="write the samples again") from error


def scored_sample(line: Mapping[str, Any]) -> ScoredSample:
    """One line of a samples file as the sample that it was written from, as far as the line says."""
    arguments = _arguments(line["arguments"])
    repeats = [answers if isinstance(answers, list) else [answers] for answers in line["resps"]]
    instances: list[Instance] = []
    outputs: list[Output] = []
    cut_off = iter(line.get("truncated") or ())
    for argument, answers in zip(arguments, repeats, strict=True):
        for repeat, answer in enumerate(answers):
            request = _request(argument, repeat)
            instances.append(Instance(int(line["doc_id"]), len(instances), request))
            outputs.append(_output(request, answer, truncated=bool(next(cut_off, False))))
    ranked = [item.request.continuation for item in instances if isinstance(item.request, LoglikelihoodRequest)]
    texts = tuple(map(str, line.get("choices") or ()))
    choices = tuple(text.strip() for text in ranked) if len(ranked) > 1 else ()
    gold = _gold(line, choices)
    sample = Sample(
        doc_id=int(line["doc_id"]),
        doc=line["doc"],
        target=line.get("target"),
        choices=choices,
        gold=gold,
        texts=texts,
        labels=tuple(line.get("labels") or ()),
        instances=tuple(instances),
    )
    filtered = tuple(line.get("filtered_resps") or ())
    metrics = line.get("metrics") or ()
    return ScoredSample(
        sample=sample,
        outputs=tuple(outputs),
        scorer=str(line.get("filter", "none")),
        filtered=filtered,
        values={name: line[name] for name in metrics if name in line},
        steps=tuple(Step(name=step["step"], value=step["value"]) for step in line.get("steps") or ()),
        prediction=line["prediction"] if "prediction" in line else _prediction(choices, outputs, filtered),
    )


def _arguments(saved: Any) -> list[Argument]:
    """The arguments of all requests; older files of lm-eval have lists where newer ones have objects."""
    listed = list(saved.values()) if isinstance(saved, Mapping) else list(saved)
    return [tuple(item.values()) if isinstance(item, Mapping) else tuple(item) for item in listed]


def _request(argument: Argument, repeat: int) -> Request:
    context = str(argument[0])
    if len(argument) == 1:
        return RollingRequest(context)
    if isinstance(argument[1], Mapping):
        return GenerationRequest.of(context, argument[1], repeat)
    return LoglikelihoodRequest(context, str(argument[1]))


def _output(request: Request, answer: Any, *, truncated: bool) -> Output:
    if isinstance(request, GenerationRequest):
        return Completion(str(answer), truncated=truncated)
    likelihood, greedy = answer if isinstance(answer, list) else (answer, False)  # a rolling request has no greedy flag
    return LLOutput(float(likelihood), greedy in (True, "True"))


def _gold(line: Mapping[str, Any], choices: Sequence[str]) -> tuple[int, ...]:
    """The indexes of the right choices: as the line says, or by its target."""
    gold = line.get("gold", line.get("target"))
    if not choices:
        return ()
    values = gold if isinstance(gold, list) else [gold]
    indexes = []
    for value in values:
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
