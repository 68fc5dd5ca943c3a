"""What several kinds of tasks share: delimiters, and the question and answer of few-shot examples."""

from __future__ import annotations

from multiform.errors import ConfigError, DataError, shorten
from multiform.forms.doc_fields import DocFields
from multiform.forms.spec import FormSpec
from multiform.tasks import TaskConfig


def one_question(form: FormSpec, fields: DocFields) -> list[str]:
    """The question of a document that has one; several are an error."""
    if fields.question is None:
        raise missing(form, "doc_to_text")
    if isinstance(fields.question, list):
        message, place = f"expected one question, got {shorten(fields.question)}", form.config.where("doc_to_text")
        raise DataError(message, where=place, hint="set multiple_inputs: true if each is scored with the same ending")
    return [str(fields.question)]


def shot_answer(form: FormSpec, fields: DocFields) -> str:
    """The answer of a few-shot example as text: the first of several, a choice for an index."""
    target = fields.target
    target = target[0] if isinstance(target, list) else target
    if isinstance(target, int) and not isinstance(target, bool) and fields.choices is not None:
        choices = fields.choices
        if not 0 <= target < len(choices):
            message = f"the answer {target} is not between 0 and {len(choices) - 1}"
            raise DataError(message, where=form.config.where("doc_to_target"), hint="check doc_to_target")
        return choices[target]
    return str(target)


def answer_delimiter(config: TaskConfig, chat: bool) -> str:
    """What stands between the prompt and a scored answer; in a chat, the end of the turn stands there."""
    prefix = config.gen_prefix or ""
    if chat and (not prefix or prefix[-1].isspace()):
        return ""
    return config.target_delimiter


def missing(form: FormSpec, key: str) -> ConfigError:
    """The error of a task that lacks a field which its scores need."""
    return ConfigError(f"the task has no {key}", where=form.config.where(), hint=f"set {key}")


def no_answer(form: FormSpec) -> DataError:
    """The error of a document without an answer to compare with."""
    return DataError("there is no answer", where=form.config.where("doc_to_target"), hint="check doc_to_target")
