"""The requests of a task: what is asked of a model about each of its documents."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from multiform.config import TaskConfig
from multiform.errors import DataError
from multiform.fields import Doc
from multiform.requests import Instance, Request
from multiform.tasks.cache import RequestCache, fingerprint, requests_folder
from multiform.tasks.prompting import TaskPrompts
from multiform.tasks.reader import placing
from multiform.tasks.records import ChatTemplate, PromptOptions

logger = logging.getLogger("multiform")


class TaskRequests(TaskPrompts, ABC):
    """Makes the requests of documents, from their prompts."""

    def __init__(self, config: TaskConfig | dict[str, Any], *, dataset_mirror: Path | None = None) -> None:
        super().__init__(config, dataset_mirror=dataset_mirror)
        self._instances: list[Instance] = []
        #: What is odd about documents but no reason to refuse them.
        self.doubts: list[DataError] = []

    @abstractmethod
    def requests(self, doc: dict[str, Any], ctx: str | list[str], *, apply_chat_template: bool) -> list[Request]:
        """What is asked of a model about one document."""

    def construct_requests(
        self,
        doc: dict[str, Any],
        ctx: str | list[str],
        *,
        doc_id: int,
        metadata: dict[str, Any] | None = None,
        apply_chat_template: bool = False,
        chat_template: ChatTemplate | None = None,
        **kwargs: Any,
    ) -> list[Instance] | None:
        """The requests of one document, tied to it; an override may return None to leave it out."""
        made = self.requests(doc, ctx, apply_chat_template=apply_chat_template)
        return [Instance(doc_id, idx, request, metadata) for idx, request in enumerate(made)]

    def doubt(self, doc: Doc) -> DataError | None:
        """What is odd about a document but no reason to refuse it."""
        return None

    @property
    def instances(self) -> list[Instance]:
        """The requests that `build_all_requests` made."""
        return self._instances

    def build_all_requests(
        self,
        *,
        limit: float | None = None,
        samples: Sequence[int] | None = None,
        rank: int = 0,
        world_size: int = 1,
        system_instruction: str | None = None,
        apply_chat_template: bool = False,
        fewshot_as_multiturn: bool = False,
        chat_template: ChatTemplate | None = None,
        tokenizer_name: str = "",
        cache_requests: bool = False,
        rewrite_requests_cache: bool = False,
        cache_folder: Path | None = None,
    ) -> list[Instance]:
        """Make and keep the requests of all documents to evaluate, or read them from the request cache."""
        options = PromptOptions(
            system_instruction=system_instruction,
            apply_chat_template=apply_chat_template,
            fewshot_as_multiturn=fewshot_as_multiturn,
            chat_template=chat_template,
        )
        docs = list(self.doc_iterator(limit=limit, samples=samples, rank=rank, world_size=world_size))
        if not cache_requests or self.media_kinds:  # images and sounds are not for a file of text
            self._instances = list(self.stream_requests(docs, options))
            return self._instances
        prompts = [system_instruction, apply_chat_template, fewshot_as_multiturn, tokenizer_name]
        cache = RequestCache(cache_folder or requests_folder(), [self._cache_key(docs), prompts])
        found = None if rewrite_requests_cache else cache.read()
        self._instances = list(self.stream_requests(docs, options)) if found is None else found
        if found is None:
            cache.write(self._instances)
        return self._instances

    def _cache_key(self, docs: list[tuple[int, dict[str, Any]]]) -> list[Any]:
        """All of the task that its requests depend on."""
        code = fingerprint([type(self), self.config.to_dict(keep_callable=True)])
        pool = self.fewshot_docs() if self.num_fewshot else []
        return [code, self.config.templates(), self._seed, [*map(dict, pool)], docs]

    def stream_requests(
        self, docs: Iterable[tuple[int, dict[str, Any]]], options: PromptOptions | None = None
    ) -> Iterator[Instance]:
        """The requests of documents, each made when it is asked for; none is kept.

        >>> from multiform.tasks import Task, TaskManager
        >>> task = Task.from_config(TaskManager().load("quiz@mcqa")[0])
        >>> next(task.stream_requests(task.doc_iterator())).request.continuation
        ' A'
        """
        options = options or PromptOptions()
        for doc_id, doc in docs:
            yield from self.requests_of(doc_id, doc, options)

    def requests_of(self, doc_id: int, doc: dict[str, Any], options: PromptOptions) -> list[Instance]:
        """The requests of one document; an error names the document."""
        with placing(f"doc {doc_id}"):
            self.reader.check(doc)
            self._note_doubt(doc_id, doc)
            context = self.fewshot_context(
                doc,
                num_fewshot=self.num_fewshot,
                system_instruction=options.system_instruction,
                apply_chat_template=options.apply_chat_template,
                fewshot_as_multiturn=options.fewshot_as_multiturn,
                chat_template=options.chat_template,
                gen_prefix=self.doc_to_prefix(doc),
            )
            return self.asked(doc_id, doc, context, options)

    def asked(
        self, doc_id: int, doc: dict[str, Any], context: str | list[str], options: PromptOptions
    ) -> list[Instance]:
        """The requests of one document with its prompt; none where the task leaves it out."""
        made = self.construct_requests(
            doc,
            context,
            doc_id=doc_id,
            apply_chat_template=options.apply_chat_template,
            chat_template=options.chat_template,
        )
        return made or []

    def _note_doubt(self, doc_id: int, doc: Doc) -> None:
        """Refuse an odd document where it is the first one, as the task is wrong then; note the first of others."""
        doubt = self.doubt(doc)
        if doubt is None:
            return
        if doc_id == 0:
            raise doubt
        what, where = f"{doubt.what}; it counts as wrong", f"{doubt.where or self.name}: doc {doc_id}"
        self.doubts.append(DataError(what, where=where, hint=doubt.hint))
        if len(self.doubts) == 1:
            logger.warning("%s", self.doubts[0])

    def answer_delimiter(self, apply_chat_template: bool) -> str:
        """What stands between the prompt and a scored answer; in a chat, the turn's end stands there."""
        prefix = self.config.gen_prefix or ""
        if apply_chat_template and (not prefix or prefix[-1].isspace()):
            return ""
        return self.config.target_delimiter
