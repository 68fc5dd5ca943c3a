"""Lines of samples files, of Multiform and of lm-eval, as the samples that they were written from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from multiform.forms import Sample, ScoredSample
from multiform.forms.sample import Step
from multiform.requests import LLOutput, LoglikelihoodRequest, Output
from multiform.results.recorded import recorded_doc


def scored_sample(line: Mapping[str, Any]) -> ScoredSample:
    """One line of a samples file as the sample that it was written from, as far as the line says."""
    doc = recorded_doc(line)
    ranked = [item.request.continuation for item in doc.instances if isinstance(item.request, LoglikelihoodRequest)]
    choices = tuple(text.strip() for text in ranked) if len(ranked) > 1 else ()
    sample = Sample(
        doc_id=doc.doc_id,
        doc=doc.doc,
        target=line.get("target"),
        choices=choices,
        gold=_gold(line, choices),
        texts=tuple(map(str, line.get("choices") or ())),
        labels=tuple(line.get("labels") or ()),
        permutation=None if line.get("choice_order") is None else tuple(line["choice_order"]),
        instances=doc.instances,
    )
    filtered = tuple(line.get("filtered_resps") or ())
    known = "prediction" in line
    return ScoredSample(
        sample=sample,
        outputs=doc.outputs,
        scorer=str(line.get("filter", "none")),
        filtered=filtered,
        values={name: line[name] for name in line.get("metrics") or () if name in line},
        prediction=line["prediction"] if known else _prediction(choices, doc.outputs, filtered),
        steps=tuple(Step(name=step["step"], value=step["value"]) for step in line.get("steps") or ()),
        failure=doc.failure,
    )


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
