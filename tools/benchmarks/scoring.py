"""Answering: tokens, CPU and wall time, and memory on the six workloads, with equal results.

What lm-eval takes grows with the number of documents: it answers for few, and its time and tokens are multiplied. Also
how the cost of each side rises with documents, shots and choices; the lead on eight architectures, random models of
about 50 million parameters on 5-shot texts; and many forms of one task in one run, against one lm-eval run for each
form, which gets the same prompts.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from tools.benchmarks.answering import PER_TOKEN, differences, errors
from tools.benchmarks.sides import NAMES, Setting
from tools.benchmarks.tables import Row, say
from tools.benchmarks.workloads import WORKLOADS, Workload

GROWING = {"cpu": "CPU time", "read": "tokens read", "peak_mb": "peak memory"}
FORMS_TASK, SELECTION, SHOTS, FEW_DOCS, MANY_DOCS = "arc_challenge", "all+mcqa~8", 2, 8, 150
#: What is written is cut short on both sides: it is the prompts that forms share.
WRITTEN = 16
NARROW = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
#: Widths that all of them share.
_SIZES = {"hidden_size": 512, "num_hidden_layers": 8, "num_attention_heads": 8, "max_position_embeddings": 4096}
_WIDE = {**_SIZES, "intermediate_size": 1536, "num_key_value_heads": 4}
#: The configuration of each architecture; Mistral has a window that is shorter than the prompts.
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "llama": _WIDE,
    "mistral": {**_WIDE, "sliding_window": 128},
    "qwen2": _WIDE,
    "qwen3": {**_WIDE, "head_dim": 64},
    "gemma2": {**_WIDE, "head_dim": 64, "sliding_window": 256},
    "gemma3_text": {**_WIDE, "head_dim": 64, "sliding_window": 256},
    "gpt_neox": {**_SIZES, "intermediate_size": 2048},
    "gpt2": {"n_embd": 512, "n_layer": 8, "n_head": 8, "n_positions": 4096},
}
DOCS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Both sides on one workload."""

    ours: dict[str, Any]
    theirs: dict[str, Any]

    def row(self, measure: str, case: str, unit: str, key: str, **more: Any) -> Row:
        return Row(measure=measure, case=case, unit=unit, ours=self.ours[key], theirs=self.theirs[key], **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A workload, with another number of shots or choices than it usually has."""

    name: str
    shots: int | None = None
    choices: int | None = None

    @property
    def workload(self) -> Workload:
        return next(one for one in WORKLOADS if one.name == self.name)

    def config(self) -> dict[str, Any]:
        config = self.workload.config()
        if self.shots is not None:
            config["num_fewshot"] = self.shots
        if self.choices is not None:
            config |= {"doc_to_choice": f"{{{{choices[:{self.choices}]}}}}", "doc_to_target": 0}
        return config


ONE_SHOT = Case(name="texts, 5-shot", shots=1)
TWO_CHOICES = Case(name="texts, 0-shot", choices=2)
CASES = (*(Case(name=workload.name) for workload in WORKLOADS), ONE_SHOT, TWO_CHOICES)


@cache
def all_requests(setting: Setting) -> dict[Case, list[list[Any]]]:
    """The requests of every case for many documents; both sides make the same."""
    details = {"configs": [case.config() for case in CASES], "limit": setting.docs[1]}
    ours, theirs = (setting.run("requests", side, **details)["requests"] for side in NAMES)
    for case, mine, other in zip(CASES, ours, theirs, strict=True):
        if mine != other:
            raise SystemExit(f"{case.name}: the requests of both sides are not the same")
    return dict(zip(CASES, ours, strict=True))


@cache
def measured(setting: Setting, case: Case, docs: int) -> Pair:
    """Run both sides in turn; raises where they do not agree."""
    every = all_requests(setting)[case]
    requests = every[: docs * len(every) // setting.docs[1]]
    say(f"{case.name}, {docs} documents: {len(requests)} requests")
    if setting.short or docs == setting.docs[0]:
        return compared(setting, case, requests)
    sample = measured(setting, case, setting.docs[0]).theirs
    ours = setting.run("score", "multiform", requests=requests)
    say(f"  multiform: {ours['cpu']:.1f} s CPU, {ours['peak_mb']:.0f} MB")
    _check(case, requests, ours, sample)
    times = docs / setting.docs[0]
    theirs = {**sample, **{key: sample[key] * times for key in ("cpu", "wall", "read", "written")}}
    return Pair(ours={**ours, "wall": ours["ended"] - ours["began"]}, theirs=theirs)


def compared(setting: Setting, case: Case, requests: list[Any]) -> Pair:
    """Run both sides in turn on these requests; raises where they do not agree."""
    # Turns as long as what is to be expected, so that both sides end at about the same time.
    made = setting.run_in_turns("score", case.workload.needed or 2, requests=requests)
    for side, found in made.items():
        say(f"  {side}: {found['cpu']:.1f} s CPU, {found['wall']:.1f} s, {found['peak_mb']:.0f} MB")
    ours, theirs = (made[side] for side in NAMES)
    _check(case, requests, ours, theirs)
    return Pair(ours=ours, theirs=theirs)


def _check(case: Case, requests: list[Any], ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Refuse figures of sides that do not answer alike, as far as both answered."""
    number = len(theirs["answers"])
    wrong = differences(requests[:number], ours["answers"][:number], theirs["answers"], ours["scored"][:number])
    if wrong:
        raise SystemExit(f"{case.name}: {len(wrong)} answers differ, such as {'; '.join(wrong[:3])}")


def measure(setting: Setting) -> Iterator[Row]:
    """The rows of all workloads."""
    for docs in setting.docs[1 if setting.short else 0 :]:
        for workload in WORKLOADS:
            yield from _rows(setting, workload, docs)


def _rows(setting: Setting, workload: Workload, docs: int) -> Iterator[Row]:
    pair = measured(setting, Case(name=workload.name), docs)
    ours, theirs = pair.ours, pair.theirs
    case = f"{workload.name}, {docs} docs"
    writes = isinstance(ours["answers"][0], str)
    bound = ours["nodes"]
    yield pair.row("tokens read", case, "tokens", "read", note=f"tree {bound:,}")
    # A few tokens go into finding out what the model can do: with few documents they show.
    limit = None if writes or docs < 200 else 1.03
    yield Row(measure="tokens read / tree", case=case, unit="times", ours=ours["read"] / bound, needed=limit)
    if writes:
        yield pair.row("tokens written", case, "slots", "written")
    else:
        number = len(theirs["answers"])
        found = errors(ours["answers"][:number], theirs["answers"], ours["scored"][:number])
        same, beyond = found.count(0.0), sum(error > PER_TOKEN for error in found)
        note = f"of {len(found):,}, {same:,} the same, {beyond:,} beyond"
        yield Row(measure="error", case=case, unit="per token", ours=max(found), needed=PER_TOKEN, note=note)
    needed = workload.needed if docs >= 200 else None
    yield pair.row("CPU time", case, "s", "cpu", needed=needed)
    yield pair.row("wall time", case, "s", "wall")
    yield pair.row("peak memory", case, "MB", "peak_mb", needed=1.0)


def measure_growth(setting: Setting) -> Iterator[Row]:
    """Each figure at the larger size over that at the smaller one."""
    few, many = setting.docs
    for workload in WORKLOADS[2:3] if setting.short else WORKLOADS:
        less, more = (measured(setting, Case(name=workload.name), docs) for docs in (few, many))
        yield from _growth_rows(f"{workload.name}, {few} to {many} docs", less, more, ours_alone=not setting.short)
    docs = many if setting.short else few
    texts, shots = (measured(setting, Case(name=name), docs) for name in ("texts, 0-shot", "texts, 5-shot"))
    yield from _growth_rows("texts, 0 to 5 shots", texts, shots)
    if not setting.short:
        yield from _growth_rows("texts, 1 to 5 shots", measured(setting, ONE_SHOT, docs), shots)
        yield from _growth_rows("texts, 2 to 4 choices", measured(setting, TWO_CHOICES, docs), texts)


def _growth_rows(case: str, less: Pair, more: Pair, *, ours_alone: bool = False) -> Iterator[Row]:
    for key, name in GROWING.items():
        ours, theirs = more.ours[key] / less.ours[key], more.theirs[key] / less.theirs[key]
        other = None if ours_alone else theirs  # lm-eval answers for few documents alone
        yield Row(measure=f"growth of {name}", case=case, unit="times", ours=ours, theirs=other)


def measure_architectures(setting: Setting) -> Iterator[Row]:
    """CPU time of both sides for every architecture; raises where they do not agree."""
    docs, case = min(DOCS, setting.docs[0]), Case(name="texts, 5-shot")
    every = all_requests(setting)[case]
    requests = every[: docs * len(every) // setting.docs[1]]
    for name, config in ARCHITECTURES.items():
        with tempfile.TemporaryDirectory() as folder:
            parameters = save_random(name, config, Path(folder), setting.model)
            say(f"{name}: {parameters / 1e6:.0f} million parameters, {len(requests)} requests")
            pair = compared(replace(setting, model=Path(folder)), case, requests)
        yield pair.row("CPU time", f"{name}, 5-shot texts, {docs} docs", "s", "cpu")
        yield pair.row("tokens read", f"{name}, 5-shot texts, {docs} docs", "tokens", "read")


def save_random(name: str, config: dict[str, Any], folder: Path, tokenizer: Path) -> int:
    """Write a random model with the tokenizer of another one; returns the number of its parameters."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    torch.manual_seed(0)
    words = AutoTokenizer.from_pretrained(tokenizer)
    made = AutoConfig.for_model(name, vocab_size=len(words), pad_token_id=0, **config)
    model = AutoModelForCausalLM.from_config(made)
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    return sum(parameter.numel() for parameter in model.parameters())


def measure_forms(setting: Setting) -> Iterator[Row]:
    """Tokens and CPU time of all forms that are scored, and of all that generate.

    lm-eval's model is loaded only once and the time for that is not counted, on neither side. Tokens are also counted
    over many documents, with a model of one narrow layer that computes as many as any.
    """
    configs = forms()
    for docs in (min(FEW_DOCS, setting.docs[0]),) if setting.short else (FEW_DOCS, MANY_DOCS):
        made = setting.run("requests", "multiform", configs=configs, limit=docs)["requests"]
        by_form = dict(zip((config["task"] for config in configs), made, strict=True))
        for kind, kind_type in (("scored", str), ("generated", dict)):
            chosen = {form: requests for form, requests in by_form.items() if isinstance(requests[0][1], kind_type)}
            case = f"{len(chosen)} {kind} forms, {docs} docs"
            if docs == MANY_DOCS:
                yield _tokens(setting, case, chosen)
            else:
                yield from _forms_rows(setting, case, chosen, exact=kind == "scored")


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
    return [{**config.to_dict(), **short} for config in manager.load(f"{FORMS_TASK}@{SELECTION}")]


def _forms_rows(setting: Setting, case: str, by_form: dict[str, list[list[Any]]], *, exact: bool) -> Iterator[Row]:
    distinct = _distinct([request for requests in by_form.values() for request in requests])
    say(f"{case}: {len(distinct)} distinct requests")
    ours = setting.run("score", "multiform", requests=distinct)
    theirs = setting.run("score_each", "lm-eval", runs=list(by_form.values()))["runs"]
    for (form, requests), run in zip(by_form.items(), theirs, strict=True):
        say(f"  lm-eval, {form}: {run['cpu']:.1f} s CPU")
        if exact:
            _check_form(form, requests, distinct, ours["answers"], run)
    # A few tokens go into finding out what the model can do: with few documents they show.
    yield Row(measure="tokens read / tree", case=case, unit="times", ours=ours["read"] / ours["nodes"])
    for measure, unit, key in (("tokens read", "tokens", "read"), ("CPU time", "s", "cpu")):
        summed = sum(run[key] for run in theirs)
        note = f"lm-eval: the sum of {len(theirs)} runs"
        yield Row(measure=measure, case=case, unit=unit, ours=ours[key], theirs=summed, note=note)


def _distinct(requests: list[list[Any]]) -> list[list[Any]]:
    """Each request once, as a run asks it."""
    return list({repr(request): request for request in requests}.values())


def _check_form(
    form: str, requests: list[list[Any]], distinct: list[list[Any]], answers: list[Any], theirs: dict[str, Any]
) -> None:
    """Refuse figures of sides that do not answer alike."""
    known = {repr(request): answer for request, answer in zip(distinct, answers, strict=True)}
    mine = [known[repr(request)] for request in requests]
    wrong = differences(requests, mine, theirs["answers"], theirs["scored"])
    if wrong:
        raise SystemExit(f"{form}: {len(wrong)} answers differ, such as {'; '.join(wrong[:3])}")
