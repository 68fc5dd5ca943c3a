"""Formats: how a document becomes a prompt and is scored, whatever its task."""

from multiform.formats.base import FormatConfig, OutputType, Scored, dialect_names, formats, register_format
from multiform.formats.builtin import (
    BlindFormat,
    BPBFormat,
    ClozeFormat,
    COTGenFormat,
    GenerateFormat,
    HybridFormat,
    MCQAFormat,
    MCQCOTFormat,
    OpenFormat,
    ThinkFormat,
)
from multiform.formats.compile import FieldMapping, bind_field, compile_format
from multiform.formats.dialects.styler import (
    BPBStyle,
    ClozeStyle,
    MCCompletionStyle,
    MCStyle,
    ResponseType,
    TaskStyle,
    TaskStyler,
    format_mc_prompt,
    shuffle_correct_with_distractors,
)
from multiform.formats.dialects.template import ClozeTemplateConfig, MCQTemplateConfig, TemplateConfig
from multiform.formats.dialects.template_factory import TemplateFactory, template_of
from multiform.formats.localization import Language
from multiform.formats.select import select_format, supported_formats
from multiform.labels import answer_key_to_index

__all__ = [
    "BPBFormat",
    "BPBStyle",
    "BlindFormat",
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
    "MCQCOTFormat",
    "MCQTemplateConfig",
    "MCStyle",
    "OpenFormat",
    "OutputType",
    "ResponseType",
    "Scored",
    "TaskStyle",
    "TaskStyler",
    "TemplateConfig",
    "TemplateFactory",
    "ThinkFormat",
    "answer_key_to_index",
    "bind_field",
    "compile_format",
    "dialect_names",
    "format_mc_prompt",
    "formats",
    "register_format",
    "select_format",
    "shuffle_correct_with_distractors",
    "supported_formats",
    "template_of",
]
