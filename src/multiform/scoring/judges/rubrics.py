"""Rubrics: the prompts of judges whose task has none of its own, as Jinja templates.

The variables are `question`, `prompt`, `prediction`, `reference`, `references`, `choices`, `doc`, `scale`, `turn` and
`conversation`; where two answers are compared, also `first` and `second`, and `baseline`, the answer that the
prediction is compared with.
"""

from __future__ import annotations

from collections.abc import Sequence

_GRADE = """\
You are grading an answer to a question. {% if references %}Compare the answer with the reference: it is right if it \
says the same, however it is worded, and wrong if it contradicts the reference, is incomplete or gives several answers.\
{% else %}There is no reference: judge by what you know whether the answer is correct, complete and to the point.\
{% endif %}

[Question]
{{ question }}

{% if references %}[Reference]
{{ references | join("\\nor: ") }}

{% endif %}[Answer]
{{ prediction }}

"""
_COMPARE = """\
You are comparing two answers to the same question. Say which of them is better: more correct, more helpful and closer \
to what was asked. Neither their order nor their length counts.

[Question]
{{ question }}

{% if references %}[Reference]
{{ references | join("\\nor: ") }}

{% endif %}[Answer A]
{{ first }}

[Answer B]
{{ second }}

"""
_WORDS = "Reason briefly, then end with one line: %s."
_SCALE = (
    "Reason briefly, then end with one line that grades the answer from {{ scale.low }} (wrong) "
    'to {{ scale.high }} (right): "Score: N".'
)
#: Added to a rubric whose judge writes JSON.
_JSON = 'Answer with one JSON object and nothing else: {"reasoning": "...", "verdict": %s}'


def rubric_template(own: str | None, *, pairs: bool, scaled: bool, structured: bool, words: Sequence[str] = ()) -> str:
    """The template of a judge's prompt: the task's `own` rubric, or the default one of its kind.

    A judge whose responses are `structured` is told so below either of them, with the words that it may use.
    """
    if own is not None and not structured:
        return own
    return f"{own}\n\n{_json(scaled, words)}" if own is not None else _default(pairs, scaled, structured, words)


def _default(pairs: bool, scaled: bool, structured: bool, words: Sequence[str]) -> str:
    *others, last = (f'"Verdict: {word.upper()}"' for word in words)
    ending = _WORDS % " or ".join([", ".join(others), last] if others else [last])
    ending = _json(scaled, words) if structured else _SCALE if scaled else ending
    return (_COMPARE if pairs else _GRADE) + ending


def _json(scaled: bool, words: Sequence[str]) -> str:
    listed = " or ".join(f'"{word.upper()}"' for word in words)
    return _JSON % ("a number from {{ scale.low }} to {{ scale.high }}" if scaled else listed)
