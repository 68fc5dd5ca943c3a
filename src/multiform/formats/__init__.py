"""Formats: how a document becomes a prompt and is scored, whatever its task."""

from multiform.formats import builtin
from multiform.formats.dialects import styler, template_factory

__all__ = ["builtin", "styler", "template_factory"]  # the modules that register formats and styles
