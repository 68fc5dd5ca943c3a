"""`multiform diff`: what two forms of a task do differently, and what each change does to a model's score."""

from __future__ import annotations

import argparse
import math
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from multiform.cli import options as flags
from multiform.cli.parser import JSON, command, flag, print_result
from multiform.errors import UsageError, excerpt, list_first
from multiform.run.values import SOURCES, count
from multiform.terminal import align, visible

if TYPE_CHECKING:
    from multiform.forms import Form
    from multiform.forms.difference import FormDifference, TokenDifference
    from multiform.forms.steps import ChangeStep
    from multiform.models import Model
    from multiform.results.run_comparison import FormChange, StepTable

#: How many different edits of tokens are listed.
_LISTED = 20


@command(
    "show what two forms of a task do differently",
    flag("first", "a task with a format or protocol, which stands for one form", metavar="A@x"),
    flag("second", "the form that it is compared with", metavar="B@y"),
    flag("--doc", "the document (default: 0)", count(), default=0),
    flag(
        "--run",
        "turn A into B one change at a time, and show what each change does to the score of a model: a name from "
        "'multiform ls models', a folder, or a name on the hub (default: what --model and --model_args say)",
        nargs="?",
        const="",
        metavar="MODEL",
    ),
    flags.option("limit", default=None, help="with --run: the first N documents, or a fraction below 1"),
    flags.option("confirm_run_unsafe_code"),
    JSON,
    flags.option_groups("prompts", "model", SOURCES),
    flags.no_code,
    description="Show what two forms do differently: their prompts side by side, byte by byte and (with a model) token "
    "by token, and few-shot examples, metric, extraction, split and subset, with one sentence for each difference. "
    "With --run, also what each change from the first to the second form does to the score.",
    examples="""\
examples:
  multiform diff quiz@mcqa quiz@cloze --num_fewshot 2
  multiform diff mmlu_anatomy@helm mmlu_anatomy@olmes-mc
  multiform diff gsm8k@wei8 gsm8k@llama3 --json
  multiform diff quiz@mcqa quiz@cloze --run bundled --limit 50
""",
)
def diff(options: argparse.Namespace) -> None:
    """Print two prompts side by side, what each change does to the score, and a sentence for each difference."""
    from multiform.forms.difference import compare_forms
    from multiform.forms.steps import steps_between
    from multiform.run.displays import Silent
    from multiform.run.executors import LocalExecutor

    names_model = options.model is not None or bool(options.model_args)
    _choose_model(options)
    first, second = (_load_form(options, name) for name in (options.first, options.second))
    number = min(len(form.eval_docs) for form in (first, second))
    if options.doc >= number:
        raise UsageError(f"no document {options.doc}", where="--doc", hint=f"there are documents 0 to {number - 1}")
    steps = [] if options.run is None else steps_between(first, second)
    run = flags.run_options(options, tasks=options.first)
    model = None
    if options.run is not None or names_model or run.apply_chat_template:
        model = LocalExecutor().load(run.model, run.model_arguments, Silent())
    template = model.apply_chat_template if model is not None and run.apply_chat_template else None
    difference = compare_forms(first, second, options.doc, template, None if model is None else _tokenizer(model))
    table = _run_steps(options, first, steps, model) if steps and model is not None else None
    described = difference.to_dict() | ({} if table is None else {"run": table.to_dict()})
    print_result(options, described, _lines(difference, table))


def _lines(difference: FormDifference, table: StepTable | None) -> Iterator[str]:
    """The prompts side by side, the edits of tokens, the steps, and a sentence for each difference."""
    yield from _prompt_lines(difference)
    if difference.tokens is not None:
        yield from _token_lines(difference.tokens)
    if table is not None:
        yield from [*_step_lines(table), ""]
    for sentence in difference.sentences() or ["Nothing differs."]:
        yield f"* {visible(sentence)}"


def _choose_model(options: argparse.Namespace) -> None:
    """Set the model that `--run` names."""
    from multiform.models import models

    if options.limit is not None and options.run is None:
        raise UsageError("nothing is run", where="--limit", hint="add --run MODEL")
    if not options.run:
        return
    if options.model is not None or "pretrained" in (options.model_args or {}):
        raise UsageError(f"the model is {excerpt(options.run)} already", where="--model", hint="name one of them")
    if options.run in models:
        options.model = options.run
    elif Path(options.run).is_dir() or "/" in options.run:
        options.model, options.model_args = "hf", {"pretrained": options.run, **(options.model_args or {})}
    else:
        hint = f"name a folder, a model on the hub, or one of {', '.join(models)}"
        raise UsageError(f"no model {excerpt(options.run)}", where="--run", hint=hint)


def _load_form(options: argparse.Namespace, name: str) -> Form:
    from multiform.run.setup import load_forms

    named, _ = load_forms(flags.run_options(options, tasks=name))
    if len(named) != 1:
        hint = f"name one of {list_first([form.name for form in named], 4)}"
        raise UsageError(f"it stands for {len(named)} forms", where=name, hint=hint)
    return named[0]


def _tokenizer(model: Model) -> Callable[[str], list[str]] | None:
    """A function that splits a prompt into the texts of its tokens; None for a model whose tokenizer is elsewhere."""
    from multiform.models.local import LocalModel

    if not isinstance(model, LocalModel):
        return None
    return lambda text: [str(model.tokenizer.decode([token])) for token in model.encoder.encode([text])[text]]


def _run_steps(options: argparse.Namespace, first: Form, steps: Sequence[ChangeStep], model: Model) -> StepTable:
    """Run the first form and that of every step, all in one run."""
    from multiform.results.run_comparison import step_table
    from multiform.run.evaluate import run

    configs = [first.config, *(step.form.config for step in steps)]
    results = run(flags.run_options(options, tasks=configs, model=model, model_args=None))
    if results.problem is not None:
        raise results.problem
    forms = {form.name: form for form in results.forms}
    return step_table(forms, first.name, [(step.what, step.form.name) for step in steps])


def _prompt_lines(difference: FormDifference) -> Iterator[str]:
    width = max(40, (shutil.get_terminal_size((120, 24)).columns - 3) // 2)
    yield f"{difference.names[0]:<{width}} | {difference.names[1]}"
    yield "-" * width + "-+-" + "-" * width
    lines, others = (visible(prompt).split("\n") for prompt in difference.prompts)
    for tag, start, end, other_start, other_end in SequenceMatcher(None, lines, others, autojunk=False).get_opcodes():
        for pair in zip_longest(lines[start:end], others[other_start:other_end], fillvalue=""):
            pieces = ([line[at : at + width] for at in range(0, len(line), width)] or [""] for line in pair)
            for left, right in zip_longest(*pieces, fillvalue=""):
                yield f"{left:<{width}} {'|' if tag == 'equal' else '!'} {right}".rstrip()
    yield ""


def _token_lines(tokens: TokenDifference) -> Iterator[str]:
    """The edits of tokens, each kind once with its number."""
    yield f"{tokens.numbers[0]:,} and {tokens.numbers[1]:,} tokens" + (", of which differ:" if tokens.edits else "")
    counts = Counter((edit.removed, edit.added) for edit in tokens.edits).most_common()
    for (removed, added), times in counts[:_LISTED]:
        often = "" if times == 1 else f" ({times} times)"
        yield f"  {_token_list(removed)} became {_token_list(added)}{often}"
    if len(counts) > _LISTED:
        yield f"  and {len(counts) - _LISTED} other edits, which --json lists"
    yield ""


def _token_list(tokens: Sequence[str]) -> str:
    return excerpt("|".join(tokens), 100) if tokens else "nothing"


def _step_lines(table: StepTable) -> Iterator[str]:
    """The score at the start, after every step, and the change by all of them."""
    start = table.to_dict()["start"]
    rows = [["", "score", "change", "95 % interval", "p", "up", "down", "metric"]]
    rows.append([table.first.name, f"{start['score']:.4f}", "", "", "", "", "", start["metric"]])
    for number, effect in enumerate((*table.effects, table.total), start=1):
        what = effect.what if effect is table.total else f"{number}. {effect.what}"
        rows.append([what, f"{effect.score.value:.4f}", *_change_cells(effect.change), effect.metric])
    yield from align(rows)
    if len(table.effects) > 1:
        yield f"the intervals and p values of the {len(table.effects)} steps hold for all of them at once (Bonferroni)"
    if any(effect.change and not effect.change.paired for effect in (*table.effects, table.total)):
        yield "unpaired: the documents are not the same, or their scores have no mean"
    if table.idle:
        yield f"without effect on these {table.first.n} documents: {', '.join(table.idle)}"


def _change_cells(change: FormChange | None) -> list[str]:
    if change is None:
        return ["", "a score of another kind", "", "", ""]
    low, high = change.simultaneous
    interval = "not known" if math.isnan(low) else f"{low:+.4f} to {high:+.4f}"
    p = "unpaired" if change.p_simultaneous is None else f"{change.p_simultaneous:.4f}"
    return [f"{change.difference.value:+.4f}", interval, p, f"{len(change.raised):>2}", f"{len(change.lowered):>4}"]
