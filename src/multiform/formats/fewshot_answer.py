"""The answers of few-shot examples, written in the words that the prompt asks for."""

from __future__ import annotations

import re

from multiform.labels import split_solution
from multiform.prompts.template import has_markup

_QUOTED = re.compile(r"""[“„]([^“”„\n]*)[“”]|«([^«»\n]*)»|"([^"\n]*)\"""")
_NAME = re.compile(r"\[[^][\n]+\]")
_PLACEHOLDER = re.compile(r"\{(answer|rationale)\}")


def asked_statement(*texts: str | None) -> str:
    """The last quoted statement that the texts of a prompt ask for, with ``{answer}`` in its place, else ``{answer}``.

    >>> asked_statement('Your response should end with "The final answer is [answer]" where [answer] is a number.')
    'The final answer is {answer}'
    >>> asked_statement("Answer with the letter alone.", None)
    '{answer}'
    """
    for text in reversed(texts):
        quoted = ["".join(groups) for groups in _QUOTED.findall(text or "")]
        statements = [quote for quote in quoted if _NAME.search(quote) and not has_markup(quote)]
        if statements:
            return _NAME.sub("{answer}", statements[-1], count=1)
    return "{answer}"


def written_answer(template: str, answer: str, rationale: str = "") -> str:
    r"""The answer of a few-shot example, with its rationale where the template has ``{rationale}``.

    >>> written_answer("{rationale}\nThe final answer is {answer}", "4", "Two and two are four.")
    'Two and two are four.\nThe final answer is 4'
    >>> written_answer("{rationale}\nThe final answer is {answer}", "4")
    'The final answer is 4'

    A worked solution is split into rationale and result, unless it ends in the template's statement already:

    >>> written_answer("{rationale}\nThe final answer is {answer}", "2 + 2 = 4\n#### 4")
    '2 + 2 = 4\nThe final answer is 4'
    >>> written_answer("{rationale}\nThe final answer is {answer}", "2 + 2 = 4. The final answer is 4.")
    '2 + 2 = 4. The final answer is 4.'
    """
    if template == "{answer}":
        return answer
    statement = _PLACEHOLDER.sub("\0", template).rpartition("\0")[0].rpartition("\0")[2].strip().casefold()
    for text in (answer, rationale if "{rationale}" in template else ""):
        if statement and statement in text.casefold():
            return text.strip()
    solution, result = split_solution(answer)
    reasons = split_solution(rationale)[0] or rationale.strip() or solution
    if not reasons:
        template = re.sub(r"\{rationale\}\s*", "", template)
    values = {"answer": result, "rationale": reasons}
    return _PLACEHOLDER.sub(lambda match: values[match[1]], template)


def after_prefix(answer: str, prefix: str) -> str:
    """The rest of an answer, after a beginning that is part of the prompt already.

    >>> after_prefix("The best answer is C", "The best answer is"), after_prefix("C", "The best answer is")
    (' C', 'C')
    """
    return answer.removeprefix(prefix.rstrip()) if prefix.strip() else answer
