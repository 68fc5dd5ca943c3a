"""Answers to problems of MATH: found in a text, normalised, and compared.

The normalisation is that of appendix D of Lewkowycz et al. (2022), "Solving quantitative reasoning problems with
language models"; the comparison as strings is that of Hendrycks et al. (2021).
"""

from __future__ import annotations

import importlib.util
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from multiform.errors import UsageError

INVALID_ANSWER = "[invalidanswer]"
#: What replaces what in an answer, in this order.
_REPLACED = {
    "an ": "",
    "a ": "",
    ".$": "$",
    r"\$": "",
    "\\ ": "",
    " ": "",
    "mbox": "text",
    r",\text{and}": ",",
    r"\text{and}": ",",
    r"\text{m}": r"\text{}",
}
UNITS = (
    *("square", "ways", "integers", "dollars", "mph", "inches", "ft", "hours", "km", "units", r"\ldots", "sue"),
    *("points", "feet", "minutes", "digits", "cents", "degrees", "cm", "gm", "pounds", "meters", "meals", "edges"),
    *("students", "childrentickets", "multiples"),
)
MARKUP = (
    *(r"\text{s}", r"\text{.}", "\\text{\ns}", r"\text{}^2", r"\text{}^3", "\\text{\n}", r"\text{}", r"\mathrm{th}"),
    *(r"^\circ", r"^{\circ}", r"\;", r",\!", "{,}", '"', r"\dots"),
)
#: Where a text states its answer, by language: as the examples do it word by word, or nearly so.
_STATEMENTS = {
    "minerva": (
        (r"Final Answer: The final answer is(.*?). I hope it is correct.", "I hope it is correct."),
        r"(?is)(?:the\s+)?final\s+answer\s*:\s*the\s+(?:final\s+)?answer\s+is\s*(.*)",
        r"(?i)\.?\s*i\s+hope\s+it\s+is\s+correct\.?\s*$",
    ),
    "minerva_de": (
        (
            r"Finale Antwort: Die finale Antwort lautet(.*?)\. Ich hoffe, die Antwort ist korrekt\.",
            "Ich hoffe, die Antwort ist korrekt.",
        ),
        r"(?is)(?:finale|endgültige)\s+antwort\s*:\s*"
        r"(?:die\s+(?:finale\s+|endgültige\s+)?antwort\s+(?:ist|lautet)\s*)?(.*)",
        r"(?i)\.?\s*ich\s+hoffe,?\s+(?:die\s+antwort|sie|es)\s+(?:ist|sei)\s+korrekt\.?\s*$",
    ),
}


def last_boxed_only_string(string: str) -> str | None:
    r"""The last ``\boxed{...}`` or ``\fbox{...}`` of a text, with its braces.

    >>> last_boxed_only_string(r"so \boxed{1} or \boxed{\frac{1}{2}}.")
    '\\boxed{\\frac{1}{2}}'
    """
    if "\\boxed " in string:
        return "\\boxed " + string.rsplit("\\boxed ", 1)[1].split("$", 1)[0]
    start = max(string.rfind("\\boxed"), -1)
    start = start if start >= 0 else string.rfind("\\fbox")
    end = _closing_brace(string, start) if start >= 0 else -1
    return string[start : end + 1] if end >= 0 else None


def remove_boxed(s: str) -> str:
    r"""What stands in a ``\boxed``; an AssertionError where the text is none."""
    if "\\boxed " in s:
        assert s.startswith("\\boxed ")
        return s.removeprefix("\\boxed ")
    assert s.startswith("\\boxed{")
    assert s.endswith("}")
    return s[len("\\boxed{") : -1]


def _boxed_text(text: str) -> str | None:
    """What stands in the last box of a text, if it has one."""
    boxed = last_boxed_only_string(text)
    try:
        return None if boxed is None else remove_boxed(boxed)
    except AssertionError:  # another kind of box
        return None


def get_unnormalized_answer(text: str, relaxed: bool = False) -> str:
    """The answer that a text states in English, or that there is none."""
    return _stated_answer(text, "minerva", relaxed)


def get_unnormalized_answer_de(text: str, relaxed: bool = False) -> str:
    """The answer that a text states in German, or that there is none."""
    return _stated_answer(text, "minerva_de", relaxed)


#: The languages that answers are stated in.
COT_EXTRACTORS: dict[str, Callable[..., str]] = {
    "minerva": get_unnormalized_answer,
    "minerva_de": get_unnormalized_answer_de,
}


def _stated_answer(text: str, style: str, relaxed: bool) -> str:
    (exact, ending), loose, tail = _STATEMENTS[style]
    match = re.search(loose, text) if relaxed else re.search(exact, text + ending)
    if match is None:
        return INVALID_ANSWER
    answer = match.group(1).strip()
    return re.sub(tail, "", answer).strip() if relaxed else answer


def normalized_gold_from_solution(solution: str) -> str | None:
    """The normalised answer in the last box of a solution."""
    answer = _boxed_text(solution)
    return None if answer is None else normalize_final_answer(answer)


def plain_latex(text: str) -> str:
    """LaTeX without what only formats it, and with the braces that fractions and roots may leave out."""
    text = re.sub(r"(.*?)(\$)(.*?)(\$)(.*)", r"$\3$", text)
    for command in ("text", "textbf", "overline"):
        text = re.sub(rf"\\{command}\{{(.*?)\}}", r"\1", text)
    text = re.sub(r"\\boxed\{(.*)\}", r"\1", text)
    text = re.sub(r"frac([^{])(.)", r"frac{\1}{\2}", text)
    return re.sub(r"sqrt([^{])", r"sqrt{\1}", text).replace("$", "")


def normalize_final_answer(final_answer: str) -> str:
    r"""An answer without units, formatting and what stands before an equals sign.

    >>> normalize_final_answer(r"x = 1,234 \text{ dollars}"), normalize_final_answer(r"$\frac12$")
    ('1234', '\\frac{1}{2}')
    """
    answer = final_answer.split("=")[-1]
    for before, after in _REPLACED.items():
        answer = answer.replace(before, after)
    for expression in (*UNITS, *MARKUP):
        answer = answer.replace(expression, "")
    answer = plain_latex(answer)
    digits = answer.replace(",", "")
    return digits if digits.isdigit() else answer


def extract_answers(
    raw_answer: str, use_cot: bool = True, cot_style: str = "minerva", relaxed: bool = False
) -> list[str]:
    """The answers that a text may mean, the most likely first: stated, boxed, between dollars, or the text itself."""
    raw = str(raw_answer)
    dollars = [match.start() for match in re.finditer(r"\$", raw)]
    if not use_cot:
        between = [raw[dollars[0] + 1 : dollars[1]]] if len(dollars) > 1 else []
        return [normalize_final_answer(text) for text in (raw, *between)]
    if cot_style not in COT_EXTRACTORS:
        raise ValueError(f"cot_style is {cot_style!r}; there are {', '.join(COT_EXTRACTORS)}")
    stated = normalize_final_answer(COT_EXTRACTORS[cot_style](raw, relaxed=relaxed))
    answers = [stated] if stated and stated != INVALID_ANSWER else []
    boxed = _boxed_text(raw)
    answers += [] if boxed is None else [normalize_final_answer(boxed)]
    if answers:
        return answers
    return [normalize_final_answer(raw[dollars[-2] + 1 : dollars[-1]] if len(dollars) > 1 else raw)]


def is_equiv_minerva(x1: str, x2: str, timeout_seconds: int = 5) -> bool:
    """Whether two answers are the same expression."""
    return equal_expressions(x1, x2, seconds=timeout_seconds)


def is_equiv_hendrycks(str1: str | None, str2: str | None) -> bool:
    """Whether two answers are spelled the same, once their spelling is made even."""
    if str1 is None or str2 is None:
        return str1 is str2
    return strip_string_hendrycks(str1) == strip_string_hendrycks(str2)


def strip_string_hendrycks(string: str) -> str:
    r"""An answer in one spelling.

    >>> strip_string_hendrycks(r"x = \dfrac 12 \text{ cm}"), strip_string_hendrycks("0.5")
    ('\\frac{1}{2}', '\\frac{1}{2}')
    """
    for before, after in (("\n", ""), (r"\!", ""), ("\\\\", "\\"), ("tfrac", "frac"), ("dfrac", "frac")):
        string = string.replace(before, after)
    for removed in (r"\left", r"\right", r"^{\circ}", r"^\circ", r"\$"):
        string = string.replace(removed, "")
    string = _without_unit(string).replace(r"\%", "").replace(" .", " 0.").replace("{.", "{0.")
    if not string:
        return string
    string = f"0{string}" if string.startswith(".") else string
    string = _fractions(_roots(_right_side(string)).replace(" ", ""))
    string = r"\frac{1}{2}" if string == "0.5" else string
    if found := re.fullmatch(r"(0|-?[1-9]\d*)/(0|-?[1-9]\d*)", string):
        string = rf"\frac{{{found.group(1)}}}{{{found.group(2)}}}"
    return re.sub(r"\b0(?=\d)", "", string)


def _right_side(string: str) -> str:
    """What stands after ``x =``, where what stands before is a short name."""
    *names, value = (part.strip() for part in string.split("="))
    if len(names) == 1 and len(names[0]) <= 2:
        return value
    several = len(names) > 1 and all(len(name) <= 2 and re.match(r"[a-zA-Z]\w*$", name) for name in names)
    return value if several else string


def _without_unit(string: str) -> str:
    r"""A text without its ``\text{...}``; what is in it where there is nothing else."""
    before, command, rest = string.partition(r"\text{")
    if not command:
        return string
    if r"\text{" in rest:
        return before
    end = _closing_brace("{" + rest, 0) - 1
    inside, after = (rest[:end], rest[end + 1 :]) if end >= 0 else (rest, "")
    return before.strip() or after.strip() or inside.strip()


def _roots(string: str) -> str:
    """Roots of one sign with braces around it."""
    first, *parts = string.split(r"\sqrt")
    return first + "".join(rf"\sqrt{{{part[:1]}}}{part[1:]}" if part[:1] != "{" else rf"\sqrt{part}" for part in parts)


def _fractions(string: str) -> str:
    """Fractions of two signs with braces around them; a text that ends in half a fraction as it is."""
    first, *parts = string.split(r"\frac")
    rewritten = first
    for part in parts:
        if not part or part[0] == "{":
            rewritten += rf"\frac{part}"
        elif len(part) < 2:
            return string
        else:
            below = "{" if part[1] == "{" else f"{{{part[1]}}}"
            rewritten += rf"\frac{{{part[0]}}}{below}{part[2:]}"
    return rewritten


def _closing_brace(string: str, start: int) -> int:
    """Where the first brace from a place on is closed, or -1."""
    depth = 0
    for index in range(start, len(string)):
        depth += (string[index] == "{") - (string[index] == "}")
        if string[index] == "}" and depth == 0:
            return index
    return -1


#: What sympy needs to read LaTeX.
REASON = "sympy reads LaTeX with the package antlr4-python3-runtime 4.11, and both need to be installed"


def reads_latex() -> bool:
    """Whether LaTeX can be read on this machine."""
    return all(importlib.util.find_spec(name) is not None for name in ("sympy", "antlr4"))


def parse_latex(text: str) -> Any:
    """The expression that a text in LaTeX is."""
    if not reads_latex():
        raise UsageError(REASON, hint="pip install sympy 'antlr4-python3-runtime==4.11'")
    from sympy.parsing.latex import parse_latex as parse  # type: ignore[import-untyped]

    return parse(text)


@contextmanager
def limit_time(seconds: int) -> Iterator[None]:
    """Raise a TimeoutError after so many seconds, where that is possible: in the main thread alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise TimeoutError(f"it took more than {seconds} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def equal_expressions(first: str, second: str, *, seconds: int) -> bool:
    """Whether the difference of two expressions is simplified to 0; what cannot be read is equal to nothing."""
    if not reads_latex():
        raise UsageError(REASON, hint="pip install sympy 'antlr4-python3-runtime==4.11'")
    import sympy  # type: ignore[import-untyped]

    try:
        with limit_time(seconds):
            return bool(sympy.simplify(parse_latex(first) - parse_latex(second)) == 0)
    except Exception:  # noqa: BLE001 - what a model wrote makes a parser raise anything
        return False
