"""The requests of a task: what is asked of a model about each of its documents."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from multiform.calls import accepted
from multiform.config import TaskConfig
from multiform.errors import ConfigError, DataError, UsageError, running, shorten
from multiform.fields import Doc
from multiform.requests import Completion, Instance, LLOutput, Output, Request
from multiform.tasks import prompt
from multiform.tasks.cache import RequestCache, fingerprint, requests_folder
from multiform.tasks.prompting import TaskPrompts
from multiform.tasks.reader import placing
from multiform.tasks.records import Answered, ChatTemplate, PromptOptions

logger = logging.getLogger("multiform")


class TaskRequests(TaskPrompts):
    """Makes the requests of documents, from their prompts."""

    def __init__(self, config: TaskConfig | dict[str, Any], *, dataset_mirror: Path | None = None) -> None:
        super().__init__(config, dataset_mirror=dataset_mirror)
        self._instances: list[Instance] = []
        #: What is odd about documents but no reason to refuse them.
        self.doubts: list[DataError] = []

    def requests(self, doc: dict[str, Any], ctx: str | list[str], *, apply_chat_template: bool) -> list[Request]:
        """What is asked of a model about one document."""
        raise NotImplementedError("a task becomes one of its output type, which has it")

    def construct_requests(
        self,
        doc: dict[str, Any],
        ctx: str | Sequence[str] | list[dict[str, Any]],
        *,
        doc_id: int = 0,
        metadata: dict[str, Any] | None = None,
        apply_chat_template: bool = False,
        chat_template: ChatTemplate | None = None,
        **kwargs: Any,
    ) -> list[Instance] | None:
        """The requests of one document, tied to it; an override may return None to leave it out.

        The prompt is a text, messages, or one of these for each of several inputs. Messages are written by the chat
        template, or as plain text where there is none.
        """
        chat = apply_chat_template or (_is_chat(ctx) and chat_template is not None)
        text = self._prompt_text(ctx, apply_chat_template, chat_template)
        made = self.requests(doc, text, apply_chat_template=chat)
        return [Instance(doc_id, idx, request, metadata) for idx, request in enumerate(made)]

    def _prompt_text(self, ctx: Any, apply_chat_template: bool, template: ChatTemplate | None) -> str | list[str]:
        """The prompt as text, or the prompts of several inputs."""
        if isinstance(ctx, str):
            return ctx
        if _is_chat(ctx):
            return self._chat_text(ctx, apply_chat_template, template)
        if not isinstance(ctx, Sequence) or not ctx or not all(isinstance(one, str) or _is_chat(one) for one in ctx):
            what = f"a prompt is {shorten(ctx)}, not text or messages"
            raise DataError(what, where=self.name, hint="give a text, a list of messages, or one for each input")
        texts = [str(self._prompt_text(one, apply_chat_template, template)) for one in ctx]
        if self.has_multiple_inputs:
            return texts
        if len(texts) > 1:
            what, place = f"{len(texts)} prompts for a document that has one input", self.config.where("doc_to_text")
            raise DataError(what, where=place, hint="set multiple_inputs: true if each is scored with the same ending")
        return texts[0]

    def _chat_text(
        self, messages: Sequence[Mapping[str, Any]], apply_chat_template: bool, template: ChatTemplate | None
    ) -> str:
        if template is not None:
            return template(list(messages), add_generation_prompt=messages[-1].get("role") != "assistant")
        if apply_chat_template:
            hint = "give chat_template, or leave out apply_chat_template for plain text"
            raise UsageError("messages without a chat template to write them with", where=self.name, hint=hint)
        return prompt.plain_chat(messages, prompt.Layout(self.config.target_delimiter, self.config.fewshot_delimiter))

    def check_scoring(self) -> list[ConfigError]:
        """Refuse scores that cannot be computed, before anything is asked."""
        return []

    def check_answer(self, doc: Doc) -> None:
        """Refuse a document whose right answer does not resolve, before anything is asked."""

    def check_asked(self, doc: Doc, requests: Sequence[Request]) -> None:
        """Refuse requests of a subclass that the metrics could not be computed from."""

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
        self.check_scoring()
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
            self.check_answer(doc)
            context = self.fewshot_context(
                doc,
                num_fewshot=self.num_fewshot,
                system_instruction=options.system_instruction,
                apply_chat_template=options.apply_chat_template,
                fewshot_as_multiturn=options.fewshot_as_multiturn,
                chat_template=options.chat_template,
                gen_prefix=self.doc_to_prefix(doc),
            )
            made = self.asked(doc_id, doc, context, options)
            if made and self._asks_itself:
                self.check_asked(doc, [instance.request for instance in made])
            return made

    def asked(
        self, doc_id: int, doc: dict[str, Any], context: str | list[str], options: PromptOptions
    ) -> list[Instance]:
        """The requests of one document with its prompt; none where the task leaves it out."""
        given = {
            "doc_id": doc_id,
            "apply_chat_template": options.apply_chat_template,
            "chat_template": options.chat_template,
        }
        place = self.config.where("class")
        with running("construct_requests", where=place, hint="call it on this document to debug it"):
            made: Any = self.construct_requests(doc, context, **accepted(self.construct_requests, given))
        listed = [] if made is None else list(made) if isinstance(made, list | tuple) else [made]
        for one in listed:
            if not isinstance(one, Instance | Request):
                what = f"construct_requests returned {shorten(one)}, which is no request"
                hint = "return a list of multiform.requests.Instance, or None to leave the document out"
                raise DataError(what, where=place, hint=hint)
        return [_tied(one, doc_id, index) for index, one in enumerate(listed)]

    @property
    def _asks_itself(self) -> bool:
        """Whether a subclass makes the requests."""
        return type(self).construct_requests is not TaskRequests.construct_requests

    def answered(self) -> list[Answered]:
        """The documents of `instances` with the responses that were put into their `resps`."""
        if not self._instances:
            raise UsageError("there are no requests yet", where=self.name, hint="call build_all_requests() first")
        by_doc: dict[int, list[Instance]] = {}
        for instance in self._instances:
            by_doc.setdefault(instance.doc_id, []).append(instance)
        return [
            Answered(doc_id=doc_id, instances=tuple(some), outputs=tuple(self._output(one) for one in some))
            for doc_id, some in by_doc.items()
        ]

    def _output(self, instance: Instance) -> Output:
        place = f"{self.name}: doc {instance.doc_id}: request {instance.idx}"
        if len(instance.resps) != 1:
            what = f"there are {len(instance.resps)} responses" if instance.resps else "there is no response yet"
            raise UsageError(what, where=place, hint="put what the model returns into resps, one for each instance")
        [response] = instance.resps
        match response:
            case LLOutput() | Completion():
                return response
            case str():
                return Completion(response)
            case (loglikelihood, is_greedy):
                return LLOutput(float(loglikelihood), bool(is_greedy))
            case int() | float():
                return LLOutput(float(response))
        hint = "give an LLOutput or a Completion, a pair of log-likelihood and greedy flag, a number or a text"
        raise UsageError(f"a response is {shorten(response)}", where=place, hint=hint)

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


def _is_chat(prompt: Any) -> bool:
    """Whether a prompt is a list of messages."""
    return isinstance(prompt, list | tuple) and bool(prompt) and all(isinstance(turn, Mapping) for turn in prompt)


def _tied(given: Instance | Request, doc_id: int, index: int) -> Instance:
    """A request as the one of this number of its document."""
    if not isinstance(given, Instance):
        return Instance(doc_id, index, given)
    return given if given.doc_id == doc_id else replace(given, doc_id=doc_id)
