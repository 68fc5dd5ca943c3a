"""Many forms of one task in one run, against one lm-eval run for each form, which gets the same prompts.

lm-eval's model is loaded only once and the time for that is not counted, on neither side. Tokens are also counted over
many documents, with a model of one narrow layer that computes as many as any.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tools.benchmarks.answering import differences
from tools.benchmarks.scoring import save_random
from tools.benchmarks.sides import Setting
from tools.benchmarks.tables import Row, say

TASK, SELECTION, SHOTS, DOCS, MANY_DOCS = "arc_challenge", "all+mcqa~8", 2, 8, 150
#: What is written is cut short on both sides: it is the prompts that forms share.
WRITTEN = 16
NARROW = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}


def measure(setting: Setting) -> Iterator[Row]:
    """Tokens and CPU time of all forms that are scored, and of all that generate."""
    configs = forms()
    for docs in (min(DOCS, setting.docs[0]),) if setting.short else (DOCS, MANY_DOCS):
        made = setting.run("requests", "multiform", configs=configs, limit=docs)["requests"]
        by_form = dict(zip((config["task"] for config in configs), made, strict=True))
        for kind, kind_type in (("scored", str), ("generated", dict)):
            chosen = {form: requests for form, requests in by_form.items() if isinstance(requests[0][1], kind_type)}
            case = f"{len(chosen)} {kind} forms, {docs} docs"
            if docs == MANY_DOCS:
                yield _tokens(setting, case, chosen)
            else:
                yield from _rows(setting, case, chosen, exact=kind == "scored")


def _tokens(setting: Setting, case: str, by_form: dict[str, list[list[Any]]]) -> Row:
    """The tokens that are computed, against the prefix tree."""
    distinct = _distinct([request for requests in by_form.values() for request in requests])
    with tempfile.TemporaryDirectory() as folder:
        save_random("llama", NARROW, Path(folder), setting.model)
        ours = replace(setting, model=Path(folder)).run("score", "multiform", requests=distinct)
    say(f"{case}: {len(distinct)} distinct requests, {ours['read']:,} tokens computed")
    note = f"{ours['read']:,} of {ours['nodes']:,} tokens"
    times = ours["read"] / ours["nodes"]
    return Row(measure="tokens read / tree", case=case, unit="times", ours=times, needed=1.02, note=note)


def forms() -> list[dict[str, Any]]:
    """The configurations of all forms, as files could have them."""
    from multiform.tasks.manager import Design, TaskManager

    manager = TaskManager("lm_eval", design=Design(num_fewshot=SHOTS))
    short = {"generation_kwargs": {"max_gen_toks": WRITTEN}, "num_fewshot": SHOTS}
    return [{**config.to_dict(), **short} for config in manager.load(f"{TASK}@{SELECTION}")]


def _rows(setting: Setting, case: str, by_form: dict[str, list[list[Any]]], *, exact: bool) -> Iterator[Row]:
    distinct = _distinct([request for requests in by_form.values() for request in requests])
    say(f"{case}: {len(distinct)} distinct requests")
    ours = setting.run("score", "multiform", requests=distinct)
    theirs = setting.run("score_each", "lm-eval", runs=list(by_form.values()))["runs"]
    for (form, requests), run in zip(by_form.items(), theirs, strict=True):
        say(f"  lm-eval, {form}: {run['cpu']:.1f} s CPU")
        if exact:
            _check(form, requests, distinct, ours["answers"], run)
    # A few tokens go into finding out what the model can do: with few documents they show.
    yield Row(measure="tokens read / tree", case=case, unit="times", ours=ours["read"] / ours["nodes"])
    for measure, unit, key in (("tokens read", "tokens", "read"), ("CPU time", "s", "cpu")):
        summed = sum(run[key] for run in theirs)
        note = f"lm-eval: the sum of {len(theirs)} runs"
        yield Row(measure=measure, case=case, unit=unit, ours=ours[key], theirs=summed, note=note)


def _distinct(requests: list[list[Any]]) -> list[list[Any]]:
    """Each request once, as a run asks it."""
    return list({repr(request): request for request in requests}.values())


def _check(
    form: str, requests: list[list[Any]], distinct: list[list[Any]], answers: list[Any], theirs: dict[str, Any]
) -> None:
    """Refuse figures of sides that do not answer alike."""
    known = {repr(request): answer for request, answer in zip(distinct, answers, strict=True)}
    mine = [known[repr(request)] for request in requests]
    wrong = differences(requests, mine, theirs["answers"], theirs["scored"])
    if wrong:
        raise SystemExit(f"{form}: {len(wrong)} answers differ, such as {'; '.join(wrong[:3])}")
