"""Templates: how questions and choices are laid out, as `template:` in a task file says it."""

from multiform.fields import process_field
from multiform.formats import ClozeTemplateConfig, MCQTemplateConfig, TemplateConfig, TemplateFactory

__all__ = ["ClozeTemplateConfig", "MCQTemplateConfig", "TemplateConfig", "TemplateFactory", "process_field"]
