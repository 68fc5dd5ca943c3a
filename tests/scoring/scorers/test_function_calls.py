"""The scorer `function_calls`: right and wrong calls, by name, argument, type and number."""

from __future__ import annotations

from typing import Any

import pytest

from multiform.scoring.scorers.columns import is_right, read_calls

CITY = {"type": "string"}
FUNCTIONS = [
    {
        "name": "trip.find",
        "parameters": {
            "type": "dict",
            "properties": {
                "start": CITY,
                "stops": {"type": "array", "items": CITY},
                "budget": {"type": "float"},
                "days": {"type": "integer"},
                "night": {"type": "boolean"},
                "till": {"type": "integer"},
                "seat": {"type": "dict", "properties": {"row": {"type": "integer"}, "side": CITY}},
                "guests": {"type": "array", "items": {"type": "dict"}},
                "at": {"type": "tuple", "items": {"type": "float"}},
            },
            "required": ["start"],
        },
    },
    {"name": "pay", "parameters": {"type": "dict", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}},
]
ANSWER = {
    "start": ["New York, NY", "NYC"],
    "stops": [["St. Louis", "Reno"], ""],
    "budget": [100.0, ""],
    "days": [3, ""],
    "night": [True, ""],
    "till": ["last_day", ""],
    "seat": [{"row": [4, 5], "side": ["left", ""]}, ""],
    "guests": [[{"name": ["Ann"]}, {"name": ["Bob"], "age": [7, ""]}], ""],
    "at": [[1.0, 2.5], ""],
}


def right(completion: str, *wanted: dict[str, Any]) -> bool:
    return is_right(read_calls(completion), list(wanted), FUNCTIONS)


@pytest.mark.parametrize(
    "arguments",
    [
        "start='NYC'",
        "start='new york ny'",  # blanks, case and some marks do not count
        "start='NYC', stops=['St Louis', 'reno']",
        "start='NYC', stops=[]",
        "start='NYC', budget=100",  # whole numbers are numbers
        "start='NYC', budget=2*50",
        "start='NYC', till=last_day",  # a variable
        "start='NYC', night=True",
        "start='NYC', seat={'row': 5}",
        "start='NYC', guests=[{'name': 'ann'}, {'name': 'Bob', 'age': 7}]",
        "start='NYC', at=(1.0, 2.5)",
    ],
)
def test_right_arguments(arguments: str) -> None:
    assert right(f"[trip.find({arguments})]", {"trip.find": ANSWER})


@pytest.mark.parametrize(
    "arguments",
    [
        "'NYC'",  # not by name
        "stops=['Reno']",  # without the required one
        "start='Boston'",
        "start='NYC', hotel='Ritz'",  # not described
        "start='NYC', stops=['Reno', 'St. Louis']",
        "start='NYC', budget='100'",
        "start='NYC', days=3.0",
        "start='NYC', night=1",
        "start='NYC', seat={'row': 6}",
        "start='NYC', seat={'side': 'left'}",  # without its row
        "start='NYC', guests=[{'name': 'Ann'}]",
        "start='NYC', at=[2.5, 1.0]",
        "start='a' * 10**9",
    ],
)
def test_wrong_arguments(arguments: str) -> None:
    assert not right(f"[trip.find({arguments})]", {"trip.find": ANSWER})


def test_an_argument_that_may_not_be_left_out_is_missed() -> None:
    assert not right("[trip.find(start='NYC')]", {"trip.find": {**ANSWER, "days": [3]}})


def test_calls_come_in_any_order_and_each_once() -> None:
    wanted = ({"pay": {"sum": [1]}}, {"pay": {"sum": [2]}})
    assert right("[pay(sum=2), pay(sum=1)]", *wanted)
    assert right("```pay(sum=1), pay(sum=2)```", *wanted)
    assert not right("[pay(sum=1), pay(sum=1)]", *wanted)
    assert not right("[pay(sum=1)]", *wanted)
    assert not right("[pay(sum=1), pay(sum=2), pay(sum=2)]", *wanted)


@pytest.mark.parametrize("text", ["None of them fits.", "[]", "Use pay(sum=1).", "[1, 2]", "[" * 10_000, ""])
def test_text_without_calls(text: str) -> None:
    assert right(text)
    assert not is_right(read_calls(text), "any", FUNCTIONS)


def test_some_call_is_enough_where_any_is_wanted() -> None:
    assert is_right(read_calls("[other(x=1)]"), "any", FUNCTIONS)
    assert not right("[pay(sum=1)]")
