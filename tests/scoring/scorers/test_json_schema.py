"""JSON that has to match a schema, beside lm-eval's own functions."""

from __future__ import annotations

import json

import pytest

from multiform import DataError
from multiform.scoring.filters import Pipeline
from multiform.scoring.metrics import build_metric
from multiform.scoring.outcome import TextOutcome
from multiform.scoring.scorers import columns
from multiform.scoring.scorers.columns import JSONSchema

SCHEMA = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z]+$"},
        "born": {"type": "string", "format": "date"},
        "at": {"format": "ipv4"},
    },
}
TEXTS = [
    '{"name": "ann"}',
    '```json\n{"name": "ann", "born": "2001-02-03"}\n```',
    '{"name": "ann", "born": "yesterday"}',
    '{"name": "ann", "at": "999.1.1.1"}',
    '{"name": "Ann"}',
    "{}",
    "[]",
    "name: ann",
    "",
]
MATCH = [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]


def values(text, schema=SCHEMA):
    metrics = [build_metric({"metric": name}) for name in JSONSchema.own_metrics]
    scorer = JSONSchema(pipeline=Pipeline(name="none", steps=()), metrics=metrics)
    doc = {"json_schema": schema if isinstance(schema, str) else json.dumps(schema)}
    return scorer.score_documents([[TextOutcome(prediction=text, references=("",))]], [doc])[0]


@pytest.mark.parametrize(("text", "match"), [*zip(TEXTS, MATCH, strict=True)])
def test_json_has_to_match_the_schema(text, match):
    assert values(text)["schema_compliance"] == match


def test_what_is_no_json_is_said_apart_from_what_does_not_match():
    assert [values(text)["json_validity"] for text in ("{}", "name: ann")] == [1.0, 0.0]


def test_nothing_matches_a_schema_that_is_none():
    assert values("1", {"type": "whole number"}) == {"schema_compliance": 0.0, "json_validity": 1.0}


def test_a_column_that_is_no_schema_is_an_error():
    with pytest.raises(DataError, match="expected a JSON schema"):
        values("1", "{type: string}")


def test_a_pattern_that_takes_forever_does_not_match(monkeypatch):
    monkeypatch.setattr(columns, "_SECONDS", 0.2)
    assert values(json.dumps("a" * 60), {"pattern": "^(a+)+b$"})["schema_compliance"] == 0.0


@pytest.mark.parity
@pytest.mark.parametrize("text", TEXTS)
def test_the_values_are_those_of_lm_eval(text):
    metrics = pytest.importorskip("lm_eval.tasks.jsonschema_bench.metrics")
    expected = {
        "schema_compliance": metrics.schema_compliance([json.dumps(SCHEMA)], [text]),
        "json_validity": metrics.json_validity([json.dumps(SCHEMA)], [text]),
    }
    assert values(text) == expected
