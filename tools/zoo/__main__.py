"""`make zoo`: check every architecture, write docs/architectures.md and the ways that brief trials rely on.

`python -m tools.zoo NAME ...` checks some; `--known` those that brief trials are for, in half a minute.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import warnings
from pathlib import Path

import torch
import transformers

from multiform.models.torch.structure import VERIFIED
from tools.zoo.check import TOLERANCE, Finding, check
from tools.zoo.models import CHUNK, POSITIONS, WINDOW, architectures, zoo_model

TABLE = Path(__file__).parents[2] / "docs" / "architectures.md"
#: The architectures whose classes are the same at every length.
KNOWN_NAMES = (
    *("cohere", "gemma", "gemma2", "gemma3_text", "gpt2", "gpt_neox", "granite", "llama", "mistral", "mixtral", "olmo"),
    *("olmo2", "opt", "phi", "phi3", "qwen2", "qwen2 (sliding window)", "qwen2_moe", "qwen3", "qwen3_moe", "smollm3"),
    *("stablelm", "starcoder2"),
)
#: What the engine does, in the words of the table.
WORDS = {
    "shared": "shared",
    "at once": "from copied states",
    "stepwise": "from copied states, stepwise",
    "together": "in batches",
    "padded": "in batches",
    "resumed": "from copied states",
    **dict.fromkeys(("alone", "plain"), "alone"),
    "uncached": "alone, without a cache",
}


def main() -> int:
    """Check architectures; 1 where the engine is wrong about one of them."""
    parser = argparse.ArgumentParser(prog="python -m tools.zoo", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="architectures, such as llama (default: all)")
    parser.add_argument(
        "--known", action="store_true", help="check the classes that brief trials are for, and write what they rely on"
    )
    options = parser.parse_args()
    names = KNOWN_NAMES if options.known else options.names
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    findings = []
    for name in names or architectures():
        findings.append(_check_quietly(name))
        print(_line(findings[-1]), flush=True)
    if not names:
        TABLE.write_text(page(findings), encoding="utf-8")
    if not options.names:
        write_verified(findings)
    wrong = [finding.name for finding in findings if not finding.is_right]
    print(f"{len(findings)} architectures, {len(wrong)} wrong{': ' if wrong else ''}{', '.join(wrong)}")
    return 1 if wrong else 0


def write_verified(findings: list[Finding]) -> None:
    """Write what the engine relies on for the installed version of transformers; other versions stay as they are."""
    versions = json.loads(VERIFIED.read_text(encoding="utf-8")) if VERIFIED.exists() else {}
    verified: dict[str, set[str]] = {}
    for finding in findings:
        if finding.verified and finding.is_right:
            verified.setdefault(finding.verified[0], set()).add(" ".join(finding.verified[1:]))
    # Where configurations of one class are computed in several ways, none is relied on.
    versions[transformers.__version__] = {kind: next(iter(ways)) for kind, ways in verified.items() if len(ways) == 1}
    VERIFIED.write_text(json.dumps(versions, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _check_quietly(name: str) -> Finding:
    with contextlib.redirect_stdout(io.StringIO()):  # some models print
        try:
            model = zoo_model(name)
        except Exception as error:  # noqa: BLE001 - whatever a configuration raises that cannot be made small
            return Finding(name=name, problem=f"no tiny model: {' '.join(str(error).split())[:80]}")
        return check(name, model)


def page(findings: list[Finding]) -> str:
    """The page of the documentation."""
    compared = [finding for finding in findings if not finding.problem]
    shared = sum(finding.scoring == "shared" for finding in compared)
    copied = sum(WORDS[finding.scoring].startswith("from copied states") for finding in compared)
    rows = "\n".join(_line(finding) for finding in compared)
    others = "\n".join(f"* {finding.name}: {finding.problem}" for finding in findings if finding.problem)
    right = sum(finding.is_right for finding in compared)
    worked = sum(finding.lm_eval != "fails" for finding in compared)
    agree = sum(finding.agrees_with_lm_eval for finding in compared)
    return f"""# Architectures

`make zoo` writes this page. It builds a tiny model of every causal and encoder-decoder architecture of transformers
{transformers.__version__}, with random weights of large scale, and compares the engine with transformers itself: with
the plain forward pass of each sequence alone, and with `generate`. Sequences have up to {POSITIONS} tokens, beyond
every window ({WINDOW} tokens) and chunk ({CHUNK}); contexts of {POSITIONS + 40} tokens are truncated to the last
position.

{len(compared)} architectures were compared. {right} of them give every log-likelihood within {TOLERANCE:g} per token,
and every greedy flag and text. When these sequences are scored, {shared} share a prefix tree, and {copied} continue
from copied states; for the others, the log says why they do not. "Difference" is the largest difference of a
log-likelihood per token. The last column compares with lm-eval in batches of one: of the {worked} architectures that
lm-eval can score, {agree} agree within {TOLERANCE:g} in all numbers, flags and texts. For the others, the numbers here
are those of the model alone.

| architecture | scoring | generation | why prefixes are not shared | difference | from lm-eval |
|---|---|---|---|---|---|
{rows}

Not compared, because no tiny model could be built or run on text alone:

{others}
"""


def _line(finding: Finding) -> str:
    if finding.problem:
        return f"| {finding.name} | {finding.problem} |"
    wrong = f"; {finding.wrong_flags} flags and {finding.wrong_texts} texts differ" if not finding.is_right else ""
    scoring, decoding = WORDS[finding.scoring], WORDS[finding.decoding]
    reasons = "; ".join(finding.reasons)
    return (
        f"| {finding.name} | {scoring} | {decoding} | {reasons} | {finding.difference:.0e}{wrong} | {finding.lm_eval} |"
    )


if __name__ == "__main__":
    sys.exit(main())
