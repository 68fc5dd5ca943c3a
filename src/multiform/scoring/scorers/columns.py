"""Scorers that compare a completion with columns of its document.

contrast         whether it is nearer to right answers than to wrong ones (TruthfulQA)
function_calls   whether it calls the functions that the document asks for (BFCL)
json_schema      whether it is JSON, and matches a schema (JSONSchemaBench)
ratings          how near its ratings are to those of the document (EQ-Bench)
"""

from __future__ import annotations

import ast
import json
import math
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from multiform.errors import DataError, excerpt
from multiform.fields import FieldSpec
from multiform.limits import TimeLimitError, within
from multiform.scoring.scorers.base import DocumentScorer, register_own_metric, register_scorer

_PACKAGES = {"bleu": "sacrebleu", "rouge1": "rouge_score", "rouge2": "rouge_score", "rougeL": "rouge_score"}
_ABOUT = {
    "max": "The {} with the nearest right answer",
    "acc": "Whether the {} with the nearest right answer is larger than that with the nearest wrong one",
    "diff": "The {} with the nearest right answer minus that with the nearest wrong one",
}
_METRICS = tuple(f"{measure}_{kind}" for measure in _PACKAGES for kind in _ABOUT)

for _name in _METRICS:
    _measure, _kind = _name.split("_")
    register_own_metric(_name, _ABOUT[_kind].format(_measure), scorer="contrast", package=_PACKAGES[_measure])


@register_scorer("contrast")
@dataclass(kw_only=True, eq=False)
class Contrast(DocumentScorer):
    """How much nearer a completion is to right answers than to wrong ones, by BLEU and ROUGE from 0 to 100.

    `right` and `wrong` are the fields with the answers.
    """

    default_metric_cfg: ClassVar[Sequence[str]] = ("bleu_acc", "rouge1_acc", "rougeL_acc", "truncated")
    own_metrics: ClassVar[Sequence[str]] = _METRICS

    right: FieldSpec = "correct_answers"
    wrong: FieldSpec = "incorrect_answers"

    def own_values(self, text: str, right: Any, wrong: Any) -> Mapping[str, Any]:
        nearest_right, nearest_wrong = nearest_scores(text, right, "right"), nearest_scores(text, wrong, "wrong")
        values: dict[str, float] = {}
        for measure in _PACKAGES:
            best, worst = nearest_right[measure], nearest_wrong[measure]
            values |= {f"{measure}_max": best, f"{measure}_acc": float(best > worst), f"{measure}_diff": best - worst}
        return values


def nearest_scores(text: str, references: Any, name: str) -> dict[str, float]:
    """By each measure, how near a text is to the nearest of the references."""
    if not isinstance(references, list | tuple) or not references:
        message = "expected a list of at least one answer"
        raise DataError(message, where=f"scorer.kwargs.{name}", hint="name the column with the answers")
    import sacrebleu
    from rouge_score.rouge_scorer import RougeScorer

    nearest = dict.fromkeys(_PACKAGES, 0.0)
    # ROUGE-L is that of summaries, in which each sentence has a line.
    kinds = {"rouge1": "rouge1", "rouge2": "rouge2", "rougeL": "rougeLsum"}
    rouge = RougeScorer(list(kinds.values()))
    for reference in map(str, references):
        bleu = sacrebleu.corpus_bleu([text], [[reference]], tokenize="intl", smooth_value=0.0).score
        scores = rouge.score(*(side.replace(" . ", ".\n") for side in (reference, text)))
        scaled = {measure: 100 * scores[kind].fmeasure for measure, kind in kinds.items()}
        nearest = {measure: max(nearest[measure], score) for measure, score in {"bleu": bleu, **scaled}.items()}
    return nearest


#: The name of a function, and its arguments by name.
Call = tuple[str, dict[str, Any]]

_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
_TYPES: dict[str, type] = {
    "string": str, "integer": int, "float": float, "boolean": bool, "array": list, "tuple": list, "dict": dict,
    "any": str,
}  # fmt: skip


@register_scorer("function_calls")
@dataclass(kw_only=True, eq=False)
class FunctionCalls(DocumentScorer):
    """Whether a completion is a list of the right calls, in any order.

    A call is right if its name and arguments are; each argument may have several right values.

    `functions` is the field with the descriptions of the functions, and `calls` that with the right calls: a mapping
    from a name to the right values of each argument, in which "" allows to leave the argument out. An empty list
    stands for no call at all, and `any` for some call.
    """

    default_metric_cfg: ClassVar[Sequence[str]] = ("exact_match", "truncated")
    own_metrics: ClassVar[Sequence[str]] = ("exact_match",)

    functions: FieldSpec = "function"
    calls: FieldSpec = "ground_truth"

    def own_values(self, text: str, functions: Any, calls: Any) -> Mapping[str, Any]:
        return {"exact_match": float(is_right(read_calls(text), calls, functions))}


def read_calls(text: str) -> list[Call]:
    """The calls of a Python list; none if the text is anything else.

    >>> read_calls("[area(base=3, unit='cm'), geo.find(at=[1, -2])]"), read_calls("No function does that.")
    ([('area', {'base': 3, 'unit': 'cm'}), ('geo.find', {'at': [1, -2]})], [])
    """
    stripped = text.strip("`\n ")
    opening, closing = "" if stripped.startswith("[") else "[", "" if stripped.endswith("]") else "]"
    try:
        body = ast.parse(f"{opening}{stripped}{closing}".strip("'"), mode="eval").body
        return [_call(item) for item in body.elts] if isinstance(body, ast.List | ast.Tuple) else []
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError, ArithmeticError):
        return []


def _call(node: ast.expr) -> Call:
    if not isinstance(node, ast.Call):
        raise ValueError("not a call")
    return ast.unparse(node.func), {str(argument.arg): _value(argument.value) for argument in node.keywords}


def _value(node: ast.expr) -> Any:
    """The value of an argument; names and other code stand for their own text."""
    match node:
        case ast.Constant(value):
            return "..." if value is ... else value
        case ast.UnaryOp(ast.USub(), operand):
            return -_value(operand)
        case ast.List(items):
            return [_value(item) for item in items]
        case ast.Tuple(items):
            return tuple(_value(item) for item in items)
        case ast.Dict(keys, values):
            return {_value(key): _value(value) for key, value in zip(keys, values, strict=True) if key is not None}
        case ast.BinOp(left, ast.Add() | ast.Sub() | ast.Mult() | ast.Div() as operation, right):
            first, second = _value(left), _value(right)
            if not isinstance(first, int | float) or not isinstance(second, int | float):
                raise ValueError("not a number")
            return _OPERATORS[type(operation)](first, second)
        case ast.Call(keywords=[_, *_]):
            return dict([_call(node)])
        case ast.Name() | ast.Call() | ast.Subscript():
            return ast.unparse(node)
    raise ValueError("not a value")


def is_right(calls: Sequence[Call], wanted: Any, functions: Any) -> bool:
    """Whether the calls are the wanted ones, each once."""
    if wanted == "any":
        return bool(calls)
    if not isinstance(wanted, list) or not isinstance(functions, list):
        message = f"expected lists of calls and functions, got {excerpt(wanted)} and {excerpt(functions)}"
        raise DataError(message, where="scorer.kwargs", hint="name the columns with calls: and functions:")
    descriptions = {function["name"]: function["parameters"] for function in functions}
    left = dict(enumerate(calls))
    for each in wanted:
        [(name, answers)] = each.items()
        fitting = (at for at, call in left.items() if call[0] == name and _fits(call[1], answers, descriptions[name]))
        if left.pop(next(fitting, -1), None) is None:
            return False
    return not left


def _fits(given: Mapping[str, Any], answers: Mapping[str, list[Any]], description: Mapping[str, Any]) -> bool:
    """Whether the arguments of a call are right: the required ones, and no others than described."""
    known = description["properties"]
    return (
        given.keys() >= {*description.get("required", ())}
        and given.keys() <= known.keys() & answers.keys()
        and all(_is_allowed(value, answers[name], known[name]) for name, value in given.items())
        and all("" in answers[name] for name in answers if name not in given)
    )


def _is_allowed(value: Any, allowed: Sequence[Any], description: Mapping[str, Any]) -> bool:
    """Whether a value has the described type, or that of the right values, and is one of these."""
    declared = _TYPES[description["type"]]
    inner = _TYPES[description["items"]["type"]] if declared is list else None
    if description["type"] == "tuple" and isinstance(value, tuple):
        value = list(value)
    if declared is float and type(value) is int:
        value = float(value)
    given, stated = type(value), _first_type(allowed)
    if given is not declared:
        return given is stated and value in allowed
    if inner is not None and not any(_has_items(value, answer, inner) for answer in allowed):
        return False
    if stated not in (None, declared):  # a variable, which stands for its own name
        return value in allowed
    if declared is dict:
        return any(_is_mapping(value, answer) for answer in allowed if answer != "")
    if inner is dict:
        return any(len(value) == len(answer) and all(map(_is_mapping, value, answer)) for answer in allowed)
    if value == [] and "" in allowed:  # as if it were left out
        return True
    return _plain(value) in [_plain(answer) for answer in allowed]


def _first_type(values: Sequence[Any]) -> type | None:
    return next((type(value) for value in values if value != ""), None)


def _has_items(value: Sequence[Any], answer: Any, inner: type) -> bool:
    return not isinstance(answer, list) or all(type(item) in (inner, _first_type(answer)) for item in value)


def _is_mapping(value: Mapping[str, Any], answer: Mapping[str, list[Any]]) -> bool:
    return all(
        key in answer and _plain(item) in [_plain(allowed) for allowed in answer[key]] for key, item in value.items()
    ) and all("" in answer[key] for key in answer if key not in value)


def _plain(value: Any) -> Any:
    """Texts, also those in a list, without blanks, case and the marks that dates and names are written with."""
    if isinstance(value, list):
        return [_plain(item) if isinstance(item, str) else item for item in value]
    return re.sub(r"[ ,./\-_*^]", "", value).lower().replace("'", '"') if isinstance(value, str) else value


#: CPU time for one validation: patterns of schemas can take forever.
_SECONDS = 40.0

for _name, _about in (
    ("json_validity", "Whether the completion is JSON"),
    ("schema_compliance", "Whether the completion is JSON that matches the schema"),
):
    register_own_metric(_name, _about, scorer="json_schema", package="jsonschema")


@register_scorer("json_schema")
@dataclass(kw_only=True, eq=False)
class JSONSchema(DocumentScorer):
    """Whether a completion, without the fences of a block of code, is JSON and matches the schema of its document.

    `schema` is the field with the schema, or with its JSON text. All are read as schemas of the draft of 2020, as in
    lm-eval. Which formats are checked, such as dates, depends on the packages that jsonschema finds.
    """

    default_metric_cfg: ClassVar[Sequence[str]] = ("schema_compliance", "json_validity", "truncated")
    own_metrics: ClassVar[Sequence[str]] = ("schema_compliance", "json_validity")

    schema: FieldSpec = "json_schema"

    def own_values(self, text: str, schema: Any) -> Mapping[str, Any]:
        try:
            parsed_schema = json.loads(schema) if isinstance(schema, str) else schema
        except ValueError as error:
            message = f"expected a JSON schema, got {excerpt(schema)}: {error}"
            raise DataError(message, where="scorer.kwargs.schema", hint="check the column") from error
        try:
            value = json.loads(text.strip().strip("`").removeprefix("json"))
        except (ValueError, RecursionError):
            return {"json_validity": 0.0, "schema_compliance": 0.0}
        return {"json_validity": 1.0, "schema_compliance": float(matches(value, parsed_schema))}


def matches(value: Any, schema: Any) -> bool:
    """Whether a value matches a schema; never if the schema is none, or checking takes too long."""
    import jsonschema

    checker = jsonschema.Draft202012Validator
    try:
        with within(_SECONDS):
            checker.check_schema(schema)
            return bool(checker(schema, format_checker=jsonschema.FormatChecker()).is_valid(value))
    except TimeLimitError:
        return False
    except Exception:  # noqa: BLE001 references that lead nowhere, patterns that are none: a hundred kinds of errors
        return False


_RATING = re.compile(r"(\w+):\s+(\d+)")
#: With which ratings at random get a score of 0.
_CHANCE = 0.7477

for _name, _about in (
    ("eqbench", "100 minus the distance of the ratings from the reference, 0 without ratings"),
    ("percent_parseable", "100 for a completion with a rating of each feeling of the reference, else 0"),
):
    register_own_metric(_name, _about, scorer="ratings")


@register_scorer("ratings")
@dataclass(kw_only=True, eq=False)
class Ratings(DocumentScorer):
    """How near the ratings in a completion, lines such as "Relief: 7", are to those of its document.

    `reference` is the field with a mapping: `emotion1` is what is rated first, `emotion1_score` its rating from 0 to
    10, and so on. If something is rated twice, the last rating counts.
    """

    default_metric_cfg: ClassVar[Sequence[str]] = ("eqbench", "percent_parseable", "truncated")
    own_metrics: ClassVar[Sequence[str]] = ("eqbench", "percent_parseable")

    reference: FieldSpec = "reference"

    def own_values(self, text: str, reference: Any) -> Mapping[str, Any]:
        wanted = reference_ratings(reference)
        ratings = {name: float(number) for name, number in _RATING.findall(text)}
        if ratings.keys() != wanted.keys():
            return {"eqbench": 0.0, "percent_parseable": 0.0}
        distance = math.fsum(scale_difference(abs(rating - wanted[name])) for name, rating in ratings.items())
        return {"eqbench": 10 * (10 - _CHANCE * distance), "percent_parseable": 100.0}


def reference_ratings(value: Any) -> dict[str, float]:
    """The ratings of a document by what is rated.

    >>> reference_ratings({"emotion1": "Relief", "emotion1_score": "7", "emotion2": "Pride", "emotion2_score": 0})
    {'Relief': 7.0, 'Pride': 0.0}
    """
    try:
        names = [key for key in value if f"{key}_score" in value]
        if not names:
            raise ValueError("nothing is rated")
        return {str(value[name]): float(value[f"{name}_score"]) for name in names}
    except (TypeError, ValueError) as error:
        message = f"expected a mapping with emotion1, emotion1_score and so on, got {excerpt(value)}"
        raise DataError(message, where="scorer.kwargs.reference", hint="check the column") from error


def scale_difference(difference: float) -> float:
    """A difference of two ratings, of which small ones count less.

    >>> [round(scale_difference(difference), 2) for difference in (0, 1, 4, 5, 8)]
    [0.0, 0.17, 3.25, 5.0, 8]
    """
    if difference == 0 or difference > 5:
        return difference or 0.0
    return 6.5 / (1 + math.exp(-1.2 * (difference - 4)))
