"""The scorer `json_schema`: whether a completion is JSON, and matches the schema of its document (JSONSchemaBench)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from multiform.errors import DataError, shorten
from multiform.fields import Doc, FieldSpec
from multiform.limits import TimeLimitError, within
from multiform.scoring.scorers.base import DocumentScorer, register_own_metric, register_scorer

#: CPU time for one validation: patterns of schemas can take forever.
_SECONDS = 40.0

for _name, _about in (
    ("json_validity", "Whether the completion is JSON"),
    ("schema_compliance", "Whether the completion is JSON that matches the schema"),
):
    about = f"{_about}; computed by the scorer `json_schema`."
    register_own_metric(_name, about, hint="write scorer: json_schema", package="jsonschema")


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

    def __post_init__(self) -> None:
        self._fields = self.compile_fields("schema")

    def own_values(self, text: str, doc: Doc) -> Mapping[str, Any]:
        schema = read_schema(self._fields["schema"].value(doc))
        try:
            value = json.loads(text.strip().strip("`").removeprefix("json"))
        except (ValueError, RecursionError):
            return {"json_validity": 0.0, "schema_compliance": 0.0}
        return {"json_validity": 1.0, "schema_compliance": float(matches(value, schema))}


def read_schema(value: Any) -> Any:
    """A schema, or the schema that a JSON text holds."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError as error:
        message = f"expected a JSON schema, got {shorten(value)}: {error}"
        raise DataError(message, where="scorer.kwargs.schema", hint="check the column") from error


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
