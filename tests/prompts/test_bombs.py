"""Templates of strangers: none of them takes more time or memory than a prompt can need."""

from __future__ import annotations

import pytest

from tests.bounded import MOST_MEMORY, MOST_SECONDS, outcomes

#: Renders one template; the document has what a stranger can put into a data file.
RENDER = """
from datetime import date
from decimal import Decimal
from multiform.errors import MultiformError
from multiform.prompts.template import compile_template, render

DOC = {"q": "Why?", "xs": ["a", "b"], "n": 5, "long": "word " * 50_000, "many": list(range(20_000)), "day": date.min,
       "dec": Decimal("1E+999999999"), "small": Decimal("1E-999999"), "path": "'" * 100_000, "f": 1e308,
       "spaces": " " * 90_000,
       "rows": [[i] for i in range(60_000)], "same": [i * (2**61 - 1) for i in range(60_000)], "tabs": "\\t" * 9_000}

def attack(source):
    try:
        value = render(compile_template(source), DOC)
        return {"error": "", "shown": str(value)[:100], "length": len(str(value))}
    except MultiformError as error:
        return {"error": str(error), "shown": "", "length": 0}
"""

LOOP = "{% for i in range(60) %}{% set ns.x = STEP %}{% endfor %}{{ ns.x|length }}"


def doubled(step: str, start: str = "'x'") -> str:
    return "{% set ns = namespace(x=" + start + ") %}" + LOOP.replace("STEP", step)


def buffered(body: str) -> str:
    """The body 99,999 times in the buffer of a macro."""
    return "{% macro m() %}{% for i in range(99999) %}" + body + "{% endfor %}{% endmacro %}{{ m()|length }}"


#: Each is refused as asking for too much.
BOMBS = {
    "translate with a list": "{{ ('\\0' * 99999).translate(['y' * 99999]) }}",
    "translate with a mapping": "{{ ('x' * 99999).translate({120: 'y' * 99999}) }}",
    "translate with a tuple": "{{ ('\\0' * 99999).translate(('y' * 99999,)) }}",
    "indent by a text": "{{ ('x\\n' * 99999)|indent('y' * 99999) }}",
    "indent by a number": "{{ ('x\\n' * 99999)|indent(99999) }}",
    "indent by name": "{{ 'x\\ny'|indent(width=2000000000) }}",
    "indent in a map": "{{ ['x\\ny']|map('indent', 2000000000)|list }}",
    "join over a generator": "{{ (range(99999)|map('string'))|join('y' * 99999) }}",
    "join over a selection": "{{ (many|select)|join('y' * 999999) }}",
    "join method over a generator": "{{ ('y' * 99999).join(range(99999)|map('string')) }}",
    "join method over a reversed list": "{{ ('y' * 99999).join(many|map('string')|list|reverse) }}",
    "join by attribute": "{{ ([{'a': 'x' * 9999}] * 99999)|join(attribute='a') }}",
    "join with a long default": "{{ ([{}] * 99999)|map(attribute='a', default='x' * 99999)|join }}",
    "urlize with a target": "{{ ('http://example.com ' * 99999)|urlize(target='y' * 99999) }}",
    "urlize with a relation": "{{ ('http://example.com ' * 99999)|urlize(rel='y' * 99999) }}",
    "regex_replace with the match": "{{ ('x' * 99999)|regex_replace('x+', '\\\\g<0>' * 99999) }}",
    "regex_replace with a look-ahead": "{{ ('x' * 99999)|regex_replace('(?=(x*))', '\\\\1') }}",
    "regex_replace of nothing": "{{ ('x' * 99999)|regex_replace('', 'y' * 99999) }}",
    "regex_replace that searches for ever": "{{ ('a' * 40 ~ 'b')|regex_replace('(a+)+$', '') }}",
    "regex_replace of quadratic time": "{{ (spaces * 9)|regex_replace(' +$x', '') }}",
    "regex_replace with a counted repetition": "{{ ('a' * 3000)|regex_replace('(a{1,99}){1,99}b', '') }}",
    "wordwrap": "{{ ('x ' * 99999)|wordwrap(1, wrapstring='y' * 99999) }}",
    "wordwrap by name": "{{ long|wordwrap(wrapstring='y' * 9999999, width=1) }}",
    "roman labels": "{{ 20000000|labels('roman') }}",
    "letters": "{{ 200000000|labels }}",
    "labels of a product": "{{ (10 ** 9)|labels('numbers')|length }}",
    "colliding keys of a list": "{{ dict(same|batch(2)|list)|length }}",
    "colliding keys of a generator": "{{ dict(same|batch(2))|length }}",
    "sum of lists": "{{ rows|sum(start=[])|length }}",
    "Decimal as a number": "{{ dec|int }}",
    "Decimal written out": "{{ '{:f}'.format(dec) }}",
    "Decimal with a percent": "{{ '%d' % dec }}",
    "Decimal with a precision": "{{ '{:.999999999f}'.format(small) }}",
    "padding": "{{ 'x'.ljust(2000000000) }}",
    "padding of bytes": "{{ q.encode().rjust(2000000000) }}",
    "padding in a loop": "{% for i in range(999) %}{{ 'x'.center(999999) }}{% endfor %}",
    "zeros": "{{ '1'.zfill(2000000000) }}",
    "tabs": "{{ tabs.expandtabs(999999) }}",
    "bytes of a number": "{{ (1).to_bytes(2000000000, 'big') }}",
    "product": "{{ 'x' * 10000000000 }}",
    "product from the left": "{{ 10000000000 * 'x' }}",
    "product of a list": "{{ [1] * 1000000000 }}",
    "product of a tuple": "{{ (1, 2) * 1000000000 }}",
    "power": "{{ 7 ** (7 ** 9) }}",
    "power of a negative number": "{{ (-7) ** 99999999 }}",
    "power, doubled": doubled("ns.x * ns.x", "7"),
    "percent": "{{ '%2000000000d' % 1 }}",
    "percent with a star": "{{ '%*d' % (2000000000, 1) }}",
    "percent with a precision": "{{ '%.2000000000f' % f }}",
    "percent of a mapping": "{{ ('%(a)s' * 99999) % {'a': 'x' * 99999} }}",
    "format": "{{ '{:2000000000}'.format(1) }}",
    "format by an argument": "{{ '{:{}}'.format(1, 2000000000) }}",
    "format by an argument of text": "{{ '{:{}}'.format(1, '2000000000') }}",
    "format by a mapping": "{{ '{:{w[0]}}'.format(1, w=['2000000000']) }}",
    "format_map": "{{ '{a:{w}}'.format_map({'a': 1, 'w': 2000000000}) }}",
    "format again and again": "{{ ('{0}' * 99999).format('x' * 99999) }}",
    "format filter": "{{ '%2000000000d'|format(1) }}",
    "format filter of text": "{{ ('%(a)s' * 99999)|format(a='x' * 99999) }}",
    "tilde": doubled("ns.x ~ ns.x"),
    "plus": doubled("ns.x + ns.x"),
    "lists in lists": doubled("[ns.x, ns.x]", "[1]").replace("|length", ""),
    "lists in lists, as JSON": doubled("[ns.x, ns.x]", "[1]").replace("|length", "|tojson"),
    "mappings in mappings": doubled("{1: ns.x, 2: ns.x}", "{}").replace("|length", ""),
    "replace": "{{ ('x' * 99999)|replace('x', 'y' * 99999) }}",
    "replace of nothing": "{{ ('x' * 99999).replace('', 'y' * 99999) }}",
    "replace, doubled": doubled("ns.x.replace('x', 'xx')"),
    "JSON with an indent": "{{ [[[1]]]|tojson(indent=1000000000) }}",
    "deep JSON with an indent": "{% set ns = namespace(x=many) %}{% for i in range(300) %}{% set ns.x = [ns.x] %}"
    "{% endfor %}{{ ns.x|tojson(indent=999)|length }}",
    "batch": "{{ [1]|batch(1000000000, 'x')|list }}",
    "slice": "{{ [1]|slice(1000000000)|list }}",
    "round": "{{ 1.5|round(1000000000, 'ceil') }}",
    "loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "recursion in two ways": "{% macro m(n) %}" + "{{ m(n + 1) if n < 40 }}" * 2 + "{% endmacro %}{{ m(0) }}",
    "text in a buffer": buffered("y" * 9999),
    "values in a buffer": buffered("{{ long }}"),
    "parts in a buffer": buffered("{{ long[1:] }}"),
    "stripping": "{{ ('a' * 999999).strip('b' * 499999 ~ 'a') }}",
    "trim with characters": "{{ ('a' * 999999)|trim('b' * 499999 ~ 'a') }}",
    "escape, doubled": doubled("(ns.x ~ '&')|forceescape|forceescape * 2"),
    "attributes of XML": "{{ ({'a': 'x' * 9999999})|xmlattr * 9 }}",
    "callers": "{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}" + "{% call m() %}" * 15 + "x" * 9999
    + "{% endcall %}" * 15,
}  # fmt: skip
#: Each is refused for another reason, or does no harm.
HARMLESS = {
    "colliding keys twice": "{{ dict.fromkeys(same)|length }}",
    "backward search": "{{ ('a' * 999999).rfind('b' ~ 'a' * 499999) }}",
    "backward split": "{{ ('a' * 999999).rsplit('b' ~ 'a' * 499999)|length }}",
    "punycode": "{{ ('\\u00fc' * 30000 ~ '\\u0100' * 30000).encode('punycode')|length }}",
    "mapping of many keys": "{{ {" + ", ".join(f"{i * (2**61 - 1)}: 1" for i in range(1, 6000)) + "} }}",
    "namespace in itself": "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
    "endless recursion": "{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}",
    "recursive loop": "{% for x in [1] recursive %}{{ loop([x, x]) }}{% endfor %}",
    "nested too deeply": "{{ " + "(" * 50000 + "1" + ")" * 50000 + " }}",
    "nested blocks": "{% if 1 %}" * 3000 + "{% endif %}" * 3000,
    "long sum": "{{ " + "1+" * 20000 + "1 }}",
    "number of 5000 digits": "{{ " + "9" * 5000 + " }}",
    "number that cannot be written": "{{ 10 ** 4299 * 10 ** 4299 }}",
    "hexadecimal number": "{{ ('f' * 99999)|int(base=16) }}",
    "numbers in a list": "{{ [('f' * 99999)|int(base=16)] }}",
    "number from bytes": "{{ (1).from_bytes(('x' * 99999).encode(), 'big') }}",
    "date": "{{ day.strftime('%2000000000Y')|length }}",
    "generator of paddings": "{{ range(99999)|map('string')|map('center', 99999) }}",
    "lipsum": "{{ lipsum(n=99999) }}",
    "cycler": "{{ cycler(1) }}",
    "power of fractions": "{{ f ** 9999 }}",
    "Decimal power": "{{ dec ** 99999 }}",
    "unique of colliding values": "{{ same|unique|list|length }}",
    "literal list": "{{ path|choice_list }}",
}

RESULTS_OF = {**BOMBS, **HARMLESS}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return outcomes(RENDER, RESULTS_OF, tmp_path_factory.mktemp("bombs"))


def test_there_are_as_many_templates_as_were_tried():
    assert len(RESULTS_OF) >= 79


@pytest.mark.long
@pytest.mark.process
@pytest.mark.parametrize("name", RESULTS_OF)
def test_a_template_costs_no_more_than_a_prompt_can_need(name, results):
    assert name in results, "the process that rendered it has ended"
    result = results[name]
    assert result["seconds"] < MOST_SECONDS
    assert result["memory"] < MOST_MEMORY
    assert result["length"] <= 10_000_000
    if name in BOMBS:
        assert "too much" in result["error"]
