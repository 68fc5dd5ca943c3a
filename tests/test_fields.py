"""Fields: columns, expressions, templates, functions and literals, read from documents."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiform.errors import ConfigError, DataError
from multiform.fields import Field, process_field
from multiform.prompts.template import compile_template, render

DOC = {
    "question": "Why?",
    "choices": {"text": ["p", "q"], "label": ["A", "B"]},
    "xs": ["p", "q"],
    "n": 5,
    "self": "me",
    "two words": "spaced",
    "markup": "{{ n }}",
}


def last(doc):
    return doc["xs"][-1]


READ = {
    "column": ("question", "Why?"),
    "column with its type": ("xs", ["p", "q"]),
    "column with a space": ("two words", "spaced"),
    "column of markup": ("markup", "{{ n }}"),
    "expression": ("{{ n }}", 5),
    "nested expression": ("{{choices.text}}", ["p", "q"]),
    "expression of markup": ("{{ markup }}", "{{ n }}"),
    "longer template": ("{{ n }}: {{ xs[0] }}", "5: p"),
    "function": (last, "q"),
    "literal list": (["yes", "no"], ["yes", "no"]),
    "literal list of column names": (["xs", "n"], ["xs", "n"]),
    "literal list of numbers": ([1, 2.5, True], [1, 2.5, True]),
    "templated list": (["{{ xs[0] }}", "{{ n }} of them", "none"], ["p", "5 of them", "none"]),
    "templated list with types": (["{{ n }}", "{{ xs }}"], [5, ["p", "q"]]),
    "literal mapping": ({"a": "yes", "b": "{{ n }}"}, {"a": "yes", "b": 5}),
    "literal number": (3, 3),
    "literal fraction": (0.5, 0.5),
    "text that cannot be a column": ("Say yes or no:", "Say yes or no:"),
    "nothing": (None, None),
}


@pytest.mark.parametrize(("spec", "value"), READ.values(), ids=READ.keys())
def test_a_field_reads_its_value(spec, value):
    assert Field.of(spec).value(DOC) == value


@pytest.mark.parametrize("spec", ["choises", "{{ choises }}", "{{ choises.text }}", ["{{ choises }}"]])
def test_a_missing_column_is_an_error_with_the_nearest_one(spec):
    with pytest.raises(DataError) as caught:
        Field.of(spec).value(DOC)
    assert str(caught.value) == "no column 'choises'; did you mean 'choices'?"


def test_a_missing_column_unlike_any_lists_the_columns():
    with pytest.raises(DataError, match="no column 'zzz'; the columns are: answer, question"):
        Field.of("zzz").value({"question": "", "answer": ""})


def test_a_template_that_does_not_parse_is_an_error_before_any_document_is_read():
    with pytest.raises(ConfigError, match="template syntax error"):
        Field.of("{{ question")
    with pytest.raises(ConfigError, match="template syntax error"):
        Field.of(["yes", "{{ question"])


def test_a_function_that_fails_is_an_error_that_names_it():
    with pytest.raises(DataError) as caught:
        Field.of(last).value({"xs": []})
    assert str(caught.value) == (
        "function last failed: IndexError: list index out of range; call it on this document to debug it"
    )


def test_our_own_errors_come_through_a_function_unchanged():
    def refuse(doc):
        raise DataError("no such thing", hint="look again")

    with pytest.raises(DataError, match=r"^no such thing; look again$"):
        Field.of(refuse).value(DOC)


def test_a_field_is_compiled_once_and_read_many_times():
    field = Field.of("{{ n }} once")
    compiled = compile_template("{{ n }} once")
    assert compile_template("{{ n }} once") is compiled
    assert [field.value({"n": n}) for n in (1, 2)] == ["1 once", "2 once"]


def test_in_a_text_a_word_that_is_no_column_stands_for_itself():
    assert Field.text("Answer").value(DOC) == "Answer"
    assert Field.text("question").value(DOC) == "Why?"
    assert Field.text("{{ n }} words").value(DOC) == "5 words"


EXPRESSIONS = {
    "column": ("xs", "xs"),
    "expression": ("{{ choices.text }}", "choices.text"),
    "list": (["p", "it's"], "['p', \"it's\"]"),
    "list with expressions": (["{{ n }}", "no"], "[(n)|string, 'no']"),
    "number": (3, "3"),
    "negative number": (-1, "-1"),
}


@pytest.mark.parametrize(("spec", "expression"), EXPRESSIONS.values(), ids=EXPRESSIONS.keys())
def test_a_field_that_jinja_can_spell_has_an_expression(spec, expression):
    assert Field.of(spec).expression() == expression


@pytest.mark.parametrize(
    "spec",
    ["two words", "1st", "is", "True", "self", "{{ n }}: {{ n }}", last, ["{{ n }} of"], {"a": "b"}, None, [None]],
    ids=lambda spec: getattr(spec, "__name__", str(spec)),
)
def test_a_field_that_jinja_cannot_spell_has_no_expression(spec):
    assert Field.of(spec).expression() is None


def test_a_column_named_like_a_word_of_jinja_is_read_as_a_column():
    assert Field.of("self").value(DOC) == "me"


@given(st.lists(st.text().filter(lambda text: "{" not in text) | st.integers(), max_size=5))
def test_the_expression_of_a_literal_list_gives_the_list_back(items):
    expression = Field.of(items).expression()
    assert render(compile_template(f"{{{{ {expression} }}}}"), {}) == items


# The rules of spec/template-system.txt, "process_field() Function".

PROCESSED = {
    "simple field name": ("question", "Why?"),
    "single expression preserves the type": ("{{xs}}", ["p", "q"]),
    "single expression of a number": ("{{ n }}", 5),
    "single expression with white space around": (" {{xs}}\n", ["p", "q"]),
    "complex template is a string": ("{{n}}: {{xs[0]}}", "5: p"),
    "two expressions are a string": ("{{n}}{{n}}", "55"),
    "nested access": ("{{choices.text}}", ["p", "q"]),
    "indexing": ("{{choices.text[1]}}", "q"),
    "function": (last, "q"),
    "anything else is itself": (7, 7),
}


@pytest.mark.parametrize(("spec", "value"), PROCESSED.values(), ids=PROCESSED.keys())
def test_process_field_follows_the_rules_of_the_template_system(spec, value):
    found = process_field(DOC, spec, "default")
    assert found == value
    assert type(found) is type(value)


def test_process_field_gives_the_default_where_no_field_is_given():
    assert process_field(DOC, None) is None
    assert process_field(DOC, None, "default") == "default"


def test_process_field_gives_the_default_for_a_missing_column():
    assert process_field(DOC, "nope") is None
    assert process_field(DOC, "nope", "default") == "default"


def test_process_field_does_not_render_what_it_read():
    assert process_field(DOC, "markup") == process_field(DOC, "{{ markup }}") == "{{ n }}"


def test_process_field_names_a_column_that_an_expression_misses():
    with pytest.raises(DataError, match="no column 'quesion'; did you mean 'question'"):
        process_field(DOC, "{{ quesion }}", "default")
