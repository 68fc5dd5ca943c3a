"""Templates: compiled once, strict about names, and unable to reach or change anything outside."""

from __future__ import annotations

import copy
import datetime
import os
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiform.errors import ConfigError, DataError, MultiformError
from multiform.labels import parse_literal_list
from multiform.prompts.template import compile_template, has_markup, literal_text, render

DOC = {
    "question": "Why?",
    "xs": ["a", "b"],
    "n": 5,
    "f": 1.5,
    "yes": True,
    "none": None,
    "d": {"text": ["p", "q"], "key": "B"},
    "markup": "{{ n }} {% if %} {# no #}",
}


def rendered(source, doc=DOC):
    return render(compile_template(source), doc)


SINGLE = {
    "list": ("{{ xs }}", ["a", "b"]),
    "number": ("{{ n }}", 5),
    "fraction": ("{{f}}", 1.5),
    "bool": ("{{ yes }}", True),
    "null": ("{{ none }}", None),
    "mapping": ("{{ d }}", DOC["d"]),
    "attribute": ("{{ d.text }}", ["p", "q"]),
    "item": ("{{ d['key'] }}", "B"),
    "element": ("{{ xs[1] }}", "b"),
    "slice": ("{{ xs[:1] }}", ["a"]),
    "method": ("{{ xs.index('b') }}", 1),
    "filter": ("{{ xs|length }}", 2),
    "comparison": ("{{ n > 3 }}", True),
    "sum": ("{{ n + 1 }}", 6),
    "negative": ("{{ -n }}", -5),
    "positive": ("{{ +n }}", 5),
    "white-space control": ("{{- n -}}", 5),
    "white-space control without spaces": ("{{-n-}}", 5),
    "constant": ("{{ 'a' }}", "a"),
    "closing braces in a string": ("{{ '}}' }}", "}}"),
    "tuple": ("{{ n, f }}", (5, 1.5)),
    "over two lines": ("{{ xs\n  |length }}", 2),
    "default of a missing column": ("{{ nope|default('-') }}", "-"),
    "test of a missing column": ("{{ nope is defined }}", False),
    "condition": ("{{ 'p' if yes else 'q' }}", "p"),
    "condition without else that is false": ("{{ n if not yes }}", ""),
}


@pytest.mark.parametrize(("source", "value"), SINGLE.values(), ids=SINGLE.keys())
def test_a_single_expression_keeps_the_type_of_its_value(source, value):
    found = rendered(source)
    assert found == value
    assert type(found) is type(value)


LONGER = {
    "{{ n }}{{ f }}": "51.5",
    "n = {{ n }}!": "n = 5!",
    " {{ n }}": " 5",
    "{{ n }}\n": "5\n",
    "{{ xs }}.": "['a', 'b'].",
    "{{ n }}{# five #}": "5",
    "{% if yes %}{{ n }}{% endif %}": "5",
    "{% for x in xs %}{{ loop.index }}{{ x }} {% endfor %}": "1a 2b ",
    "{% raw %}{{ n }}{% endraw %}": "{{ n }}",
    "just text\n": "just text\n",
    "": "",
}


@pytest.mark.parametrize(("source", "text"), LONGER.items(), ids=map(repr, LONGER))
def test_anything_longer_is_text(source, text):
    assert rendered(source) == text


@pytest.mark.parametrize("source", ["{{ markup }}", "{{ markup }}!", "{% for m in [markup] %}{{ m }}{% endfor %}"])
def test_markup_in_a_document_is_not_rendered_again(source):
    assert rendered(source).removesuffix("!") == DOC["markup"]


def test_a_template_is_compiled_once():
    assert compile_template("{{ n }} once") is compile_template("{{ n }} once")


def test_a_template_knows_the_columns_that_it_uses():
    compiled = compile_template("{% set a = n %}{{ a }}{{ d.text }}{{ range(n) }}")
    assert compiled.names == {"n", "d"}


@pytest.mark.parametrize("source", ["{{ quesion }}", "Q: {{ quesion }}", "{{ quesion.text }}", "{{ quesion[0] }}"])
def test_a_missing_column_is_named_with_the_nearest_one(source):
    with pytest.raises(DataError) as caught:
        rendered(source)
    assert str(caught.value) == "no column 'quesion'; did you mean 'question'?"


def test_a_missing_column_unlike_any_lists_the_columns():
    with pytest.raises(DataError) as caught:
        rendered("{{ zzz }}", {"b": 1, "a": 2})
    assert str(caught.value) == "no column 'zzz'; the columns are: a, b"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("{{ d.nope }}", "has no attribute 'nope'"),
        ("{{ xs[9] }}", "no element 9"),
        ("k: {{ d['nope'] }}", "has no attribute 'nope'"),
        ("{{ xs + 1 }}", "TypeError"),
        ("{{ n / 0 }}", "ZeroDivisionError"),
        ("{{ xs.index('z') }}", "ValueError"),
        ("{% include 'other' %}", "no loader"),
        ("{{ 'z'|gold_index(xs) }}", "the answer 'z' does not resolve"),
    ],
)
def test_a_template_that_fails_on_a_document_is_a_data_error_with_the_reason(source, reason):
    with pytest.raises(DataError, match=reason) as caught:
        rendered(source)
    assert caught.value.hint


BROKEN = {
    "open braces": "{{ n",
    "empty expression": "a {{ }}",
    "open block": "{% if yes %}x",
    "unknown tag": "{% do xs.append(1) %}",
    "unknown filter": "{{ n|nofilter }}",
    "unknown test": "{{ n is notest }}",
}


@pytest.mark.parametrize("source", BROKEN.values(), ids=BROKEN.keys())
def test_a_template_that_does_not_parse_is_a_config_error_that_shows_it(source):
    with pytest.raises(ConfigError, match="template syntax error") as caught:
        compile_template(source)
    assert source in str(caught.value)
    assert "line 1" in str(caught.value)


ESCAPES = {
    "class of a string": "{{ ''.__class__.__mro__ }}",
    "subclasses": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "item instead of attribute": "{{ ''['__class__'] }}",
    "attr filter": "{{ ''|attr('__class__') }}",
    "spliced name": "{{ ''|attr('__cla' ~ 'ss__') }}",
    "format string": "{{ '{0.__class__}'.format(n) }}",
    "format_map": "{{ '{n.__class__}'.format_map({'n': n}) }}",
    "template": "{{ self.__init__.__globals__ }}",
    "cycler": "{{ cycler.__init__.__globals__.os.system('touch escaped') }}",
    "cycler instance": "{{ cycler('a').next.__globals__ }}",
    "joiner": "{{ joiner.__init__.__globals__ }}",
    "namespace": "{{ namespace.__init__.__globals__ }}",
    "namespace holding a method": "{% set ns = namespace(m=xs) %}{{ ns.m.append('c') }}",
    "lipsum": "{{ lipsum.__globals__['os'].system('touch escaped') }}",
    "method's self": "{{ question.upper.__self__.__class__ }}",
    "function in a text": "x {{ range.__globals__ }}",
    "import": "{{ __import__('os').system('touch escaped') }}",
    "open": "{{ open('escaped', 'w') }}",
    "append": "{{ xs.append('c') }}",
    "append in a text": "x {{ xs.append('c') }}",
    "append through attr": "{{ (xs|attr('append'))('c') }}",
    "append in a set block": "{% set x %}{{ xs.append('c') }}{% endset %}",
    "extend": "{{ xs.extend(['c']) }}",
    "insert": "{{ xs.insert(0, 'c') }}",
    "pop": "{{ xs.pop() }}",
    "remove": "{{ xs.remove('a') }}",
    "clear": "{{ xs.clear() }}",
    "sort": "{{ xs.sort() }}",
    "reverse": "{{ xs.reverse() }}",
    "set item": "{{ xs.__setitem__(0, 'c') }}",
    "update": "{{ d.update({'c': 1}) }}",
    "setdefault": "{{ d.setdefault('c', 1) }}",
    "popitem": "{{ d.popitem() }}",
    "range bomb": "{{ range(10 ** 9)|list }}",
    "range bomb in a loop": "{% for i in range(10 ** 9) %}{{ i }}{% endfor %}",
    "range bomb by length": "{{ range(200000)|length }}",
}


@pytest.mark.parametrize("source", ESCAPES.values(), ids=ESCAPES.keys())
def test_a_template_cannot_leave_its_sandbox(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    doc = copy.deepcopy(DOC)
    environment = dict(os.environ)
    with pytest.raises((ConfigError, DataError)):
        rendered(source, doc)
    assert doc == DOC
    assert list(tmp_path.iterdir()) == []
    assert dict(os.environ) == environment


class Picture:
    """An object of a library that can do more than hold data."""

    def __init__(self) -> None:
        self.size = (2, 2)

    def save(self, path: str) -> None:
        raise AssertionError("a template has called it")

    def __iter__(self):
        raise AssertionError("a template has called it")


class Word(str):
    """Text of a library that can be written to a file."""

    def tofile(self, path: str) -> None:
        raise AssertionError("a template has called it")


@pytest.mark.parametrize(
    "source",
    [
        "{{ picture.save('escaped') }}",
        "{{ picture['save']('escaped') }}",
        "{{ (picture|attr('save'))('escaped') }}",
        "{{ pictures[0].save('escaped') }}",
        "{{ pictures|map(attribute='size')|join }}",
        "{{ picture.size }}",
        "size {{ picture.size }}",
        "{{ '{0.size}'.format(picture) }}",
        "{% for x in picture %}{{ x }}{% endfor %}",
        "{{ picture.__class__() }}",
        "{{ function() }}",
        "{{ kind('escaped', 'w') }}",
        "{{ word.tofile('escaped') }}",
        "{{ number.tofile('escaped') }}",
        "{{ array.tofile('escaped') }}",
        "{{ picture }}!",
        "{{ 'a' ~ picture }}",
        "{{ '{}'.format(picture) }}",
    ],
)
def test_a_template_cannot_look_into_objects(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    values = {"picture": Picture(), "word": Word("w"), "number": np.float64(1), "array": np.ones(2)}
    with pytest.raises((ConfigError, DataError)):
        rendered(source, {**values, "pictures": [Picture()], "function": os.getcwd, "kind": open})
    assert list(tmp_path.iterdir()) == []


def test_a_template_passes_objects_through():
    picture = Picture()
    doc = {"picture": picture, "pictures": [picture], "yes": True}
    assert rendered("{{ picture }}", doc) is picture
    assert rendered("{{ pictures[0] }}", doc) is picture
    assert rendered("{{ picture if yes else none }}", doc) is picture
    assert rendered("{{ pictures }}", doc) == [picture]


def test_dates_and_numbers_of_other_libraries_are_data():
    doc = {"day": datetime.date(2024, 2, 29), "number": np.float64(1.5), "array": np.array([1, 2]), "word": Word("W")}
    assert rendered("{{ day }}: {{ day.year }}, {{ day.strftime('%d') }}", doc) == "2024-02-29: 2024, 29"
    assert rendered("{{ number }} {{ array }} {{ array[1] }} {{ word.lower() }}", doc) == "1.5 [1 2] 2 w"


def test_a_template_may_work_on_a_long_document():
    doc = {"text": "A few words. " * 100_000, "words": ["word"] * 100_000}
    assert len(rendered("{{ text|replace('few', 'couple of')|trim }}", doc)) > 1_300_000
    assert len(rendered("{{ words|join(' ') }}", doc)) == 499_999


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'x'.ljust(2000000000) }}",
        "{{ ('a' * 40 ~ 'b')|regex_replace('(a+)+$', '') }}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    ],
)
def test_a_template_is_bounded_in_any_thread(source):
    errors = []

    def work() -> None:
        try:
            rendered(source)
        except ConfigError as error:
            errors.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert "the template asks for too much" in errors[0]


def test_what_exceeds_the_allowance_and_is_harmless_is_rendered_as_ever():
    text = "A few words. " * 50_000
    assert rendered("{{ text|replace('few', 'couple of') }}", {"text": text}) == text.replace("few", "couple of")
    assert rendered("{{ xs|map('upper') }}", {"xs": ["a"] * 20_000}) == ["A"] * 20_000
    with pytest.raises(DataError, match="no column 'nope'"):
        rendered("{{ text|replace('few', 'couple of') }}{{ nope }}", {"text": text})


def test_a_sandbox_breach_says_what_to_do_instead():
    with pytest.raises(ConfigError, match=r"reaches outside its sandbox.*use !function for code"):
        rendered("{{ ''.__class__ }}")


def test_a_loop_may_count_with_a_namespace():
    source = "{% set ns = namespace(n=0) %}{% for x in xs %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}"
    assert rendered(source) == "2"


def test_templates_have_the_filters_of_lm_eval():
    assert rendered("{{ 'B'|answer_key_to_index }}") == 1
    assert rendered("{{ '3'|answer_key_to_index }}") == 2
    assert rendered("{{ 'q'|answer_key_to_index(d.text) }}") == 1
    assert rendered("{{ question|regex_replace('[?]', '!') }}") == "Why!"


def test_templates_have_the_filters_that_formats_are_written_with():
    assert rendered("{{ 'b'|gold_index(d.text) }}") == 1
    assert rendered("{{ 'q'|gold_label(d.text, 'numbers') }}") == "2"
    assert rendered("{{ 0|gold_text(d.text) }}") == "p"
    assert rendered("{{ 3|labels|join_words('or') }}") == "A, B or C"


CHOICES = {
    "list": (["p", "q"], ["p", "q"]),
    "mapping": ({"A": "p", "B": "q"}, ["p", "q"]),
    "spelled out": ("['p', 'q']\n", ["p", "q"]),
}


@pytest.mark.parametrize(("choices", "listed"), CHOICES.values(), ids=CHOICES.keys())
def test_choices_may_be_a_list_a_mapping_or_a_list_that_is_spelled_out(choices, listed):
    assert rendered("{{ c|choice_list }}", {"c": choices}) == listed
    assert rendered("{{ 'q'|gold_index(c) }}", {"c": choices}) == 1


def test_a_text_is_not_a_list_of_choices():
    with pytest.raises(DataError, match="expected a list of choices, got 'pq'; check doc_to_choice"):
        rendered("{{ c|choice_list }}", {"c": "pq"})


SPELLED = {
    "texts": ("['a', 'b']", ["a", "b"]),
    "numbers": (" [1, 2.5] ", [1, 2.5]),
    "empty": ("[]", []),
    "nested": ("[['a'], 'b']", [["a"], "b"]),
    "not a list": ("a, b", None),
    "tuple": ("('a', 'b')", None),
    "words in brackets": ("[answer]", None),
    "code": ("[__import__('os')]", None),
    "broken": ("['a', 'b]", None),
    "deeply nested": ("[" * 5000 + "]" * 5000, None),
}


@pytest.mark.parametrize(("text", "value"), SPELLED.values(), ids=SPELLED.keys())
def test_a_list_that_is_spelled_out_is_read_and_nothing_else(text, value):
    assert parse_literal_list(text) == value


@pytest.mark.parametrize(
    ("text", "found"),
    [("{{ n }}", True), ("{% if n %}", True), ("{# n #}", True), ("n { n } }}", False), ("", False)],
    ids=["expression", "statement", "comment", "single braces", "empty"],
)
def test_markup_is_an_opening_brace_pair(text, found):
    assert has_markup(text) is found


def test_literal_text_is_what_stands_around_the_values():
    assert literal_text("Question: {{ q }}\nAnswer:") == ["Question: ", "", "\nAnswer:"]
    assert literal_text("{% if q %}Yes {{ q }}{% else %}No{% endif %}") == ["Yes ", "", "No"]


@given(st.text())
def test_any_text_of_a_document_comes_through_unchanged(text):
    assert rendered("{{ t }}", {"t": text}) == text
    assert rendered("<{{ t }}>", {"t": text}) == f"<{text}>"


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda v: st.lists(v), max_leaves=5))
def test_any_value_of_a_document_keeps_its_type(value):
    found = rendered("{{ v }}", {"v": value})
    assert found == value
    assert type(found) is type(value)


@given(st.text(alphabet="{}%#- +'\"nxs.|()[]=!,~", max_size=30))
def test_any_template_renders_or_raises_one_of_our_errors(source):
    try:
        rendered(source)
    except MultiformError as error:
        assert str(error)  # noqa: PT017


def test_filters_read_lists_labels_and_boxes():
    from multiform.fields import process_field

    doc = {
        "rows": "[{'a': 1}, {'a': 2}]",
        "labels": [0, 1, 1],
        "solution": r"so \boxed{\frac{1}{2}}",
        "text": "a ) 1 , b ) 2",
    }
    assert process_field(doc, "{{(rows|literal)[-1].a}}") == 2
    assert process_field(doc, "{{labels|indexes(1)}}") == [1, 2]
    assert process_field(doc, "{{solution|boxed}}") == r"\frac{1}{2}"
    assert process_field(doc, "{{text|findall('[0-9]')}}") == ["1", "2"]
    assert [process_field({"word": word}, "{{word|mend_encoding}}") for word in ("aÃ±o", "año", "“a”")] == [
        "año",
        "año",
        "“a”",
    ]
    assert process_field({"text": "A &amp; B"}, "{{text|unescape}}") == "A & B"
    for template in ("{{text|literal}}", "{{text|boxed}}"):
        with pytest.raises(DataError):
            process_field(doc, template)


def test_a_seed_decides_the_order_of_a_shuffled_list():
    template = compile_template("{{[a, b, 'c', 'd']|shuffle(a)|join}}")
    orders = {render(template, {"a": seed, "b": "b"})[-3:] for seed in "uvwxyz"}
    assert len(orders) > 1
    assert render(template, {"a": "u", "b": "b"}) == render(template, {"a": "u", "b": "b"})
