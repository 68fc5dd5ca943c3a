"""A Jinja template as a list of parts: texts, values, loops, conditions and other statements."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from multiform.prompts.template import lex


@dataclass(frozen=True, slots=True)
class Text:
    """Plain text."""

    text: str

    @property
    def source(self) -> str:
        return "{% raw %}" + self.text + "{% endraw %}" if re.search(r"\{[{%#]", self.text) else self.text


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
    body: tuple[Part, ...]
    source: str


@dataclass(frozen=True, slots=True)
class Condition:
    """``{% if … %}`` without an else."""

    body: tuple[Part, ...]
    source: str


@dataclass(frozen=True, slots=True)
class Opaque:
    """Any other statement, with its body."""

    source: str


Part = Text | Value | Loop | Condition | Opaque
_Token = tuple[str, str]

_FOR = re.compile(r"for\s+(\w+)\s+in\s+(.+)", re.DOTALL)
_SET = re.compile(r"set\s+(\w+)\s*=\s*(.+)", re.DOTALL)
_OPENERS = ("for", "if", "set", "filter", "macro", "call", "with", "raw", "block")


def template_parts(source: str) -> list[Part]:
    """The parts of a template; neighbouring texts are join_texts, and strings added to values are parts of their own.

    >>> template_parts("Question: {{q}}\\nAnswer:")
    [Text(text='Question: '), Value(expression='q'), Text(text='\\nAnswer:')]
    >>> template_parts("{{'Q: ' + question + '\\nA:'}}")
    [Text(text='Q: '), Value(expression='question'), Text(text='\\nA:')]
    """
    parts, _ = _parse(list(_pieces(source)), 0, None)
    return join_texts(_without_constants(parts))


def join_texts(parts: Sequence[Part]) -> list[Part]:
    """The parts with neighbouring texts join_texts and empty texts removed."""
    merged: list[Part] = []
    for part in parts:
        if isinstance(part, Text) and merged and isinstance(merged[-1], Text):
            merged[-1] = Text(merged[-1].text + part.text)
        elif not (isinstance(part, Text) and not part.text):
            merged.append(part)
    return merged


def _pieces(source: str) -> Iterator[_Token]:
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


def _parse(tokens: list[_Token], at: int, until: str | None) -> tuple[list[Part], int]:
    """The parts from one token up to the statement that ends them."""
    parts: list[Part] = []
    while at < len(tokens):
        token_type, inner = tokens[at]
        if token_type == "data":
            parts.append(Text(inner))
        elif token_type == "variable":
            parts += _sum_parts(inner)
        elif until is not None and inner.split()[0] == until:
            return parts, at + 1
        else:
            part, at = _statement(tokens, at)
            parts.append(part)
            continue
        at += 1
    return parts, at


def _statement(tokens: list[_Token], at: int) -> tuple[Part, int]:
    """One statement with its body."""
    inner = tokens[at][1]
    word = inner.split()[0]
    if word not in _OPENERS or (word == "set" and _SET.fullmatch(inner)):
        return Opaque(f"{{% {inner} %}}"), at + 1
    end = _end(tokens, at, word)
    source = "".join(map(_source, tokens[at:end]))
    plain = not any(token == "block" and text.split()[0] in ("else", "elif") for token, text in tokens[at:end])
    body, _ = _parse(tokens[at + 1 : end - 1], 0, None) if plain else ([], end)
    loop = _FOR.fullmatch(inner)
    if loop is not None and plain:
        return Loop(loop[1], loop[2].strip(), tuple(join_texts(body)), source), end
    if word == "if" and plain:
        return Condition(tuple(join_texts(body)), source), end
    return Opaque(source), end


def _end(tokens: list[_Token], at: int, word: str) -> int:
    depth = 0
    for index in range(at, len(tokens)):
        token_type, inner = tokens[index]
        if token_type == "block":
            depth += (inner.split()[0] == word) - (inner.split()[0] == f"end{word}")
            if depth == 0:
                return index + 1
    return len(tokens)


def _source(token: _Token) -> str:
    token_type, inner = token
    return {"data": inner, "variable": f"{{{{ {inner} }}}}"}.get(token_type, f"{{% {inner} %}}")


def _sum_parts(expression: str) -> list[Part]:
    """The parts of an expression: itself, or each operand where it adds strings to values."""
    operands = _operands(expression)
    strings = [_string(operand) for operand in operands]
    if len(operands) < 2 or not any(text is not None for text in strings):
        text = _string(expression)
        return [Value(expression) if text is None else Text(text)]
    return [Value(op) if text is None else Text(text) for op, text in zip(operands, strings, strict=True)]


def _operands(expression: str) -> list[str]:
    """The operands of ``+`` and ``~`` at the outermost level of an expression."""
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
    is_balanced = depth == 0 and all(operand.strip() for operand in operands)
    return [operand.strip() for operand in operands] if is_balanced and not _loose(operands) else [expression]


def _loose(operands: Sequence[str]) -> bool:
    """Whether an operand has an operator of lower precedence than a sum, so that it cannot be taken out of it."""
    return any(
        re.search(r"\b(if|else|and|or|not|in|is)\b|[<>=]=?|-", operand)
        for operand in operands
        if _string(operand) is None
    )


def _string(expression: str) -> str | None:
    if not re.fullmatch(r"""\s*("(\\.|[^"\\])*"|'(\\.|[^'\\])*')\s*""", expression, re.DOTALL):
        return None
    quoted = expression.strip().replace("\n", "\\n")
    try:
        value = ast.literal_eval(quoted)
    except (SyntaxError, ValueError):
        return None
    return value if isinstance(value, str) else None


def _without_constants(parts: Sequence[Part]) -> list[Part]:
    """The parts with variables that ``{% set name = 'text' %}`` defines replaced by their texts."""
    constants: dict[str, str] = {}
    result: list[Part] = []
    for part in parts:
        assignment = _SET.fullmatch(part.source[2:-2].strip()) if isinstance(part, Opaque) else None
        text = _string(assignment[2]) if assignment else None
        if assignment and text is not None:
            constants[assignment[1]] = text
        elif isinstance(part, Value) and part.expression in constants:
            result.append(Text(constants[part.expression]))
        else:
            result.append(part)
    return result
