"""Jinja templates, which anybody may have written.

template   compiles and renders them
sandbox    the environment that they run in: plain data, no attributes of objects, no changes
limits     the sizes and the work that templates may cost
filters    the filters beside those of Jinja
"""

from multiform.jinja.filters import choice_list, parse_literal_list
from multiform.jinja.template import Compiled, Doc, compile_template, has_markup, lex, literal_text, render, too_much

__all__ = [
    "Compiled",
    "Doc",
    "choice_list",
    "compile_template",
    "has_markup",
    "lex",
    "literal_text",
    "parse_literal_list",
    "render",
    "too_much",
]
