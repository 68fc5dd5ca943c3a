"""The requests of a task written for lm-eval, which may create its instances itself."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Any, TypeVar

from multiform.compat.lm_eval.api import translate
from multiform.compat.lm_eval.api.documents import TaskDocs
from multiform.compat.lm_eval.api.samplers import bridged
from multiform.errors import DataError, running
from multiform.fields import Doc
from multiform.forms import ChatTemplate
from multiform.forms.hooks import FIELD_HOOKS, Hooks
from multiform.requests import Instance as Ours

T = TypeVar("T")


class TaskRequests(TaskDocs):
    """Calls `construct_requests`, and takes one instance or a list of them."""

    def _hooks(self) -> Hooks:
        hooks = {**super()._hooks()}
        for name in FIELD_HOOKS:  # an override knows no other template for few-shot examples
            if name in hooks:
                hooks[f"fewshot_{name}"] = hooks[name]
        if "construct_requests" in hooks:
            hooks["construct_requests"] = self._constructed
        if "sampler" in hooks:
            hooks["sampler"] = lambda own=hooks["sampler"]: bridged(own())
        return hooks

    def construct_requests(self, doc: dict[str, Any], ctx: Any, **kwargs: Any) -> Any:
        """The instances of one document: one, or a list of them."""
        chat = bool(kwargs.pop("apply_chat_template", False))
        kwargs.pop("chat_template", None)
        asked = self.renderer.instances(self.renderer.fields(doc), ctx, doc_id=0, chat=chat)
        return translate.instances(doc, [instance.request for instance in asked], **kwargs)

    @property
    def instances(self) -> Any:
        """The requests that `build_all_requests` made, as instances."""
        by_doc = groupby(self._instances, key=lambda instance: instance.doc_id)
        return [
            instance
            for doc_id, asked in by_doc
            for instance in translate.instances(
                self.eval_docs[doc_id],
                [entry.request for entry in asked],
                metadata=(self.config.task, doc_id, self.config.repeats),
            )
        ]

    def _constructed(
        self, doc: Doc, ctx: Any, *, doc_id: int, apply_chat_template: bool, chat_template: ChatTemplate | None
    ) -> list[Ours]:
        """What the task's own `construct_requests` makes, as our requests."""
        instances = self._by_its_code(
            "construct_requests",
            lambda: self.construct_requests(
                doc=doc,  # type: ignore[arg-type]
                ctx=ctx,
                metadata=(self.config.task, doc_id, self.config.repeats),
                apply_chat_template=apply_chat_template,
                chat_template=chat_template,
            ),
        )
        listed = instances if isinstance(instances, list | tuple) else [instances]
        if {"loglikelihood_rolling", "loglikelihood"} <= {getattr(instance, "request_type", "") for instance in listed}:
            message = "a document asks for the likelihood of a whole text and of a continuation"
            raise DataError(message, where=self._place, hint="make two tasks of it")
        try:
            return translate.requests(instances, doc_id, self.config.repeats, self.renderer.media.read)
        except DataError as error:
            raise error.or_at(self._place) from error

    @property
    def _place(self) -> str | None:
        return self.config.where("class")

    def _by_its_code(self, name: str, call: Callable[[], T]) -> T:
        """What a task's own method returns; whatever it raises is an error of the task."""
        with running(name, where=self._place, hint="call it on this document to debug it"):
            return call()
