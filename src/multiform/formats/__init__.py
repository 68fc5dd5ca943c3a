"""Formats: what a prompt looks like, what is scored, and how an answer is read back."""

from multiform.formats.base import FormatConfig, OutputType, Scored, formats, register_format
from multiform.formats.builtin import (
    BPBFormat,
    ClozeFormat,
    COTGenFormat,
    GenerateFormat,
    HybridFormat,
    MCQAFormat,
)
from multiform.formats.choices import answer_key_to_index, format_mc_prompt, shuffle_correct_with_distractors
from multiform.formats.dialects import dialects
from multiform.formats.factory import TemplateFactory, template_of
from multiform.formats.jinja import FieldMapping, bound, compile_format
from multiform.formats.language import Language
from multiform.formats.select import select_format, supported_formats
from multiform.formats.style import ResponseType, TaskStyle, TaskStyler
from multiform.formats.styles import BPBStyle, ClozeStyle, MCCompletionStyle, MCStyle
from multiform.formats.template import TemplateConfig
from multiform.formats.templates import ClozeTemplateConfig, MCQTemplateConfig

__all__ = [
    "BPBFormat",
    "BPBStyle",
    "COTGenFormat",
    "ClozeFormat",
    "ClozeStyle",
    "ClozeTemplateConfig",
    "FieldMapping",
    "FormatConfig",
    "GenerateFormat",
    "HybridFormat",
    "Language",
    "MCCompletionStyle",
    "MCQAFormat",
    "MCQTemplateConfig",
    "MCStyle",
    "OutputType",
    "ResponseType",
    "Scored",
    "TaskStyle",
    "TaskStyler",
    "TemplateConfig",
    "TemplateFactory",
    "answer_key_to_index",
    "bound",
    "compile_format",
    "dialects",
    "format_mc_prompt",
    "formats",
    "register_format",
    "select_format",
    "shuffle_correct_with_distractors",
    "supported_formats",
    "template_of",
]
