"""The skeleton of a template: its text, in which one character stands for each value and each statement.

Patterns for the parts of a prompt search the text, and what they leave of it becomes a template again.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from multiform.prompts.template import lex

_FIRST = 0xF0000
#: The characters that stand for values and statements, which Unicode leaves to private use.
MARK = re.compile("[\U000f0000-\U000ffffd]")


@dataclass(frozen=True, slots=True)
class Value:
    """An expression whose value is inserted: ``{{ expression }}``."""

    expression: str

    @property
    def source(self) -> str:
        return f"{{{{{self.expression}}}}}"


@dataclass(frozen=True, slots=True)
class Loop:
    """``{% for target in items %}``."""

    target: str
    items: str
    body: Skeleton
    source: str


@dataclass(frozen=True, slots=True)
class Statement:
    """Any other statement; `body` is that of an ``{% if … %}`` without an else."""

    source: str
    body: Skeleton | None = None


Part = Value | Loop | Statement


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A text with marks, and what they stand for, in their order."""

    text: str
    parts: tuple[Part, ...]

    def parts_in(self, text: str) -> list[Part]:
        """What the marks in a piece of the text stand for."""
        return [self.parts[ord(mark) - _FIRST] for mark in MARK.findall(text)]

    def source(self, text: str) -> str:
        """A piece of the text as a template.

        >>> skeleton = read_skeleton("Question: {{q}}")
        >>> skeleton.source(skeleton.text.removeprefix("Question: "))
        '{{q}}'
        """
        plain = [plain_source(piece) for piece in MARK.split(text)]
        return plain[0] + "".join(
            part.source + piece for part, piece in zip(self.parts_in(text), plain[1:], strict=True)
        )


def plain_source(text: str) -> str:
    """The template that gives a text as it is."""
    return "{% raw %}" + text + "{% endraw %}" if re.search(r"\{[{%#]", text) else text


_Token = tuple[str, str]

_FOR = re.compile(r"for\s+(\w+)\s+in\s+(.+)", re.DOTALL)
_SET = re.compile(r"set\s+(\w+)\s*=\s*(.+)", re.DOTALL)
_OPENERS = ("for", "if", "set", "filter", "macro", "call", "with", "raw", "block")


def read_skeleton(source: str) -> Skeleton:
    r"""The skeleton of a template. Strings that are added to values, and variables that are set to one, are text.

    >>> skeleton = read_skeleton("{% set cue = 'A:' %}{{'Q: ' + question}}\n{{cue}}")
    >>> skeleton.text.replace("\U000f0000", "_"), skeleton.parts
    ('Q: _\nA:', (Value(expression='question'),))
    """
    return _build(list(_tokens(source)))


def _tokens(source: str) -> Iterator[_Token]:
    """Texts, expressions and statements, each as one token with its source."""
    opened, inner = "", ""
    for token, value in lex(source):
        if token in ("variable_begin", "block_begin"):
            opened, inner = token.removesuffix("_begin"), ""
        elif token in ("variable_end", "block_end"):
            yield opened, inner.strip()
            opened = ""
        elif token in ("raw_begin", "raw_end") or token.startswith("comment"):
            continue
        elif opened:
            inner += value
        else:
            yield "data", value


def _build(tokens: Sequence[_Token]) -> Skeleton:
    text, at = "", 0
    parts: list[Part] = []
    constants: dict[str, str] = {}

    def mark(part: Part) -> str:
        parts.append(part)
        return chr(_FIRST + len(parts) - 1)

    while at < len(tokens):
        (token_type, inner), end = tokens[at], at + 1
        if token_type == "data":
            text += MARK.sub(lambda character: mark(Statement(character[0])), inner)
        elif token_type == "variable":
            for operand in _operands(inner):
                string = constants.get(operand, _string(operand))
                text += mark(Value(operand)) if string is None else string
        elif (assignment := _SET.fullmatch(inner)) and (string := _string(assignment[2])) is not None:
            constants[assignment[1]] = string
        else:
            statement, end = _statement(tokens, at)
            text += mark(statement)
        at = end
    return Skeleton(text, tuple(parts))


def _statement(tokens: Sequence[_Token], at: int) -> tuple[Part, int]:
    """One statement with its body, and where it ends."""
    inner = tokens[at][1]
    word = inner.split()[0]
    if word not in _OPENERS or (word == "set" and _SET.fullmatch(inner)):
        return Statement(f"{{% {inner} %}}"), at + 1
    end = _end(tokens, at, word)
    written = {"data": "{}", "variable": "{{{{ {} }}}}", "block": "{{% {} %}}"}
    source = "".join(written[token].format(text) for token, text in tokens[at:end])
    if any(token == "block" and text.split()[0] in ("else", "elif") for token, text in tokens[at:end]):
        return Statement(source), end
    body = _build(tokens[at + 1 : end - 1])
    if loop := _FOR.fullmatch(inner):
        return Loop(loop[1], loop[2].strip(), body, source), end
    return Statement(source, body if word == "if" else None), end


def _end(tokens: Sequence[_Token], at: int, word: str) -> int:
    depth = 0
    for index in range(at, len(tokens)):
        token_type, inner = tokens[index]
        if token_type == "block":
            depth += (inner.split()[0] == word) - (inner.split()[0] == f"end{word}")
            if depth == 0:
                return index + 1
    return len(tokens)


def _operands(expression: str) -> list[str]:
    """The operands of ``+`` and ``~`` at the outermost level, if strings are among them; else the expression."""
    operands, depth = [""], 0
    for token_type, value in lex(f"{{{{{expression}}}}}"):
        if token_type in ("variable_begin", "variable_end"):
            continue
        if token_type == "operator":
            depth += (value in "([{") - (value in ")]}")
        if depth == 0 and token_type == "operator" and value in ("+", "~"):
            operands.append("")
        else:
            operands[-1] += value
    values = [operand for operand in operands if _string(operand) is None]
    # An operand with an operator of lower precedence than a sum cannot be taken out of it.
    loose = any(re.search(r"\b(if|else|and|or|not|in|is)\b|[<>=]=?|-", value) for value in values)
    apart = depth == 0 and all(map(str.strip, operands)) and not loose and len(values) < len(operands)
    return [operand.strip() for operand in operands] if apart else [expression]


def _string(expression: str) -> str | None:
    if not re.fullmatch(r"""\s*("(\\.|[^"\\])*"|'(\\.|[^'\\])*')\s*""", expression, re.DOTALL):
        return None
    try:
        return str(ast.literal_eval(expression.strip().replace("\n", "\\n")))
    except (SyntaxError, ValueError):
        return None
