"""The requests of a task written for lm-eval, which may make its own instances."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Any, TypeVar

from multiform.compat.lm_eval.api import translate
from multiform.compat.lm_eval.api.documents import TaskDocs
from multiform.errors import DataError, running
from multiform.fields import Doc
from multiform.media import Kind, Media
from multiform.requests import Instance as Ours
from multiform.tasks import PromptOptions
from multiform.tasks import Task as OurTask
from multiform.tasks.media import read_media

T = TypeVar("T")


class TaskRequests(TaskDocs):
    """Calls `construct_requests`, and takes one instance or a list of them."""

    def construct_requests(self, doc: dict[str, Any], ctx: Any, **kwargs: Any) -> Any:
        """The instances of one document: one, or a list of them."""
        chat = bool(kwargs.pop("apply_chat_template", False))
        kwargs.pop("chat_template", None)
        return translate.instances(doc, self.requests(doc, ctx, apply_chat_template=chat), **kwargs)

    @property
    def instances(self) -> Any:
        """The requests that `build_all_requests` made, as instances."""
        made = groupby(self._instances, key=lambda one: one.doc_id)
        return [
            instance
            for doc_id, some in made
            for instance in translate.instances(
                self.eval_docs[doc_id],
                [one.request for one in some],
                metadata=(self.config.task, doc_id, self.config.repeats),
            )
        ]

    def asked(self, doc_id: int, doc: dict[str, Any], context: str | list[str], options: PromptOptions) -> list[Ours]:
        if not self._asks_itself:
            made = self.requests(doc, context, apply_chat_template=options.apply_chat_template)
            return [Ours(doc_id, index, request) for index, request in enumerate(made)]
        given = self._by_its_code("construct_requests", lambda: self._constructed(doc_id, doc, context, options))
        kinds = {getattr(one, "request_type", "") for one in (given if isinstance(given, list | tuple) else [given])}
        if {"loglikelihood_rolling", "loglikelihood"} <= kinds:
            what = "a document asks for the likelihood of a whole text and of a continuation"
            raise DataError(what, where=self._place, hint="make two tasks of it")
        try:
            return translate.requests(given, doc_id, self.config.repeats, self._read_media)
        except DataError as error:
            raise DataError(error.what, where=error.where or self._place, hint=error.hint) from error

    def _constructed(self, doc_id: int, doc: dict[str, Any], context: str | list[str], options: PromptOptions) -> Any:
        return self.construct_requests(
            doc=doc,
            ctx=context,
            metadata=(self.config.task, doc_id, self.config.repeats),
            apply_chat_template=options.apply_chat_template,
            chat_template=options.chat_template,
        )

    def _read_media(self, value: Any, kind: Kind) -> list[Media | None]:
        return read_media(value, kind, self._find, self.config)

    @property
    def _asks_itself(self) -> bool:
        return type(self).construct_requests is not TaskRequests.construct_requests

    def shot_question(self, doc: Doc) -> str:
        overridden = type(self).doc_to_text is not OurTask.doc_to_text
        return str(self.doc_to_text(doc)) if overridden else super().shot_question(doc)

    def shot_answer(self, doc: Doc) -> str:
        """The answer of an example; an override of `doc_to_target` knows no other template for examples."""
        if type(self).doc_to_target is OurTask.doc_to_target:
            return super().shot_answer(doc)
        target = self.doc_to_target(doc)
        target = target[0] if isinstance(target, list) else target
        indexed = isinstance(target, int) and not isinstance(target, bool) and self.config.doc_to_choice is not None
        return self.choices(doc)[target] if indexed else str(target)

    @property
    def _place(self) -> str | None:
        return self.config.where("class")

    def _by_its_code(self, name: str, call: Callable[[], T]) -> T:
        """What a task's own method returns; whatever it raises is an error of the task."""
        with running(name, where=self._place, hint="call it on this document to debug it"):
            return call()
