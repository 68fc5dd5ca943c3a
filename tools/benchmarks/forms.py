"""Many forms of one task in one run, against one lm-eval run for each form, which gets the same prompts.

lm-eval's model is loaded only once and the time for that is not counted, on neither side.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tools.benchmarks.agreement import differences
from tools.benchmarks.rows import Row, say
from tools.benchmarks.sides import Setting

TASK, SELECTION, SHOTS, DOCS = "arc_challenge", "all+mcqa~8", 2, 150
#: What is written is cut short on both sides: it is the prompts that forms share.
WRITTEN = 16


def measure(setting: Setting) -> Iterator[Row]:
    """Tokens and CPU time of all forms that are scored, and of all that generate."""
    limit = setting.docs[0] if setting.short else DOCS
    configs = forms()
    made = setting.run("requests", "multiform", configs=configs, limit=limit)["requests"]
    by_form = dict(zip((config["task"] for config in configs), made, strict=True))
    for kind, kind_type in (("scored", str), ("generated", dict)):
        chosen = {form: requests for form, requests in by_form.items() if isinstance(requests[0][1], kind_type)}
        yield from _rows(setting, f"{len(chosen)} {kind} forms, {limit} docs", chosen, exact=kind == "scored")


def forms() -> list[dict[str, Any]]:
    """The configurations of all forms, as files could have them."""
    from multiform.tasks import Design, TaskManager

    manager = TaskManager("lm_eval", design=Design(num_fewshot=SHOTS))
    short = {"generation_kwargs": {"max_gen_toks": WRITTEN}, "num_fewshot": SHOTS}
    return [{**config.to_dict(), **short} for config in manager.load(f"{TASK}@{SELECTION}")]


def _rows(setting: Setting, case: str, by_form: dict[str, list[list[Any]]], *, exact: bool) -> Iterator[Row]:
    distinct = _distinct([request for requests in by_form.values() for request in requests])
    say(f"{case}: {len(distinct)} distinct requests")
    ours = setting.run("score", "multiform", requests=distinct)
    nodes = setting.run("tree", "multiform", requests=distinct)["nodes"]
    theirs = setting.run("score_each", "lm-eval", runs=list(by_form.values()))["runs"]
    for (form, requests), run in zip(by_form.items(), theirs, strict=True):
        say(f"  lm-eval, {form}: {run['cpu']:.1f} s CPU")
        if exact:
            _check(form, requests, distinct, ours["answers"], run)
    # A few tokens go into finding out what the model can do: with few documents they show.
    needed = 1.03 if exact and not setting.short else None
    yield Row(measure="tokens read / tree", case=case, unit="times", ours=ours["read"] / nodes, needed=needed)
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
