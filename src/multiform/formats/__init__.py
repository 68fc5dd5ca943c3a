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
from multiform.formats.jinja import FieldMapping, compile_format
from multiform.formats.select import select_format, supported_formats

__all__ = [
    "BPBFormat",
    "COTGenFormat",
    "ClozeFormat",
    "FieldMapping",
    "FormatConfig",
    "GenerateFormat",
    "HybridFormat",
    "MCQAFormat",
    "OutputType",
    "Scored",
    "compile_format",
    "formats",
    "register_format",
    "select_format",
    "supported_formats",
]
