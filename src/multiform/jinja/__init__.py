"""Jinja templates, which anybody may have written.

template   compiles and renders them
sandbox    the environment that they run in: plain data, no attributes of objects, no changes
limits     what a rendering may cost
filters    the filters beside those of Jinja
"""

from multiform.jinja.filters import choice_list, parse_literal_list
from multiform.jinja.limits import TooMuchError, render_bounded
from multiform.jinja.sandbox import is_metered, meter
from multiform.jinja.template import Compiled, Doc, compile_template, has_markup, lex, literal_text, render

__all__ = [
    "Compiled",
    "Doc",
    "TooMuchError",
    "choice_list",
    "compile_template",
    "has_markup",
    "is_metered",
    "lex",
    "literal_text",
    "meter",
    "parse_literal_list",
    "render",
    "render_bounded",
]
