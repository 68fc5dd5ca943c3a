"""Renderer: from a document of a form to its sample, with the prompt, the answer key and the requests."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from multiform.arguments import accepted_arguments
from multiform.errors import ConfigError, DataError, UsageError, excerpt, locating, running
from multiform.fields import Doc
from multiform.formats.base import after_prefix, written_answer
from multiform.forms.conversations import ConversationKind, read_turns
from multiform.forms.doc_fields import DocFields, FieldReader, FieldSet
from multiform.forms.media import MediaReader
from multiform.forms.output_kinds import ChoiceKind, OutputKind
from multiform.forms.sample import Context, Conversation, Sample
from multiform.forms.samplers import FewshotExamples
from multiform.forms.spec import FormSpec
from multiform.prompts.prompt import (
    ChatTemplate,
    Content,
    Delimiters,
    Messages,
    Prompt,
    PromptOptions,
    Turn,
    is_messages,
    plain_chat,
    query_turns,
    render_turns,
    shot_turns,
    system_turns,
)
from multiform.requests import Instance, Request

#: How many prompts are remembered that hooks got as texts.
_REMEMBERED = 64


class HookPrompts:
    """The prompts of a form as its hooks have them: texts, or messages for a server that gets messages.

    A text has no place for images and audio clips. The last prompts are remembered, so that one which a hook passes on
    unchanged keeps its media; any other text gets the media of its document.
    """

    def __init__(self, form: FormSpec, media: MediaReader) -> None:
        self._form = form
        self._media = media
        self._prompts: dict[Prompt, Prompt] = {}

    def contents(self, context: Context) -> Any:
        """The text or messages of a prompt; a list of them if a document has several inputs."""
        return [self._content(prompt) for prompt in context] if isinstance(context, list) else self._content(context)

    def to_prompts(self, contents: Any, fields: DocFields, options: PromptOptions) -> Context:
        """The prompt with these contents, or one for each of several inputs.

        Messages are written by the chat template, or as plain text if there is none.
        """
        if isinstance(contents, str | Prompt) or is_messages(contents):
            return self._prompt(contents, fields.doc, options)
        listed = contents if isinstance(contents, Sequence) else ()
        if not listed or not all(isinstance(each, str | Prompt) or is_messages(each) for each in listed):
            hint = "give a text, a list of messages, or one for each input"
            raise DataError(f"a prompt is {excerpt(contents)}, not text or messages", where=self._form.name, hint=hint)
        prompts = [self._prompt(content, fields.doc, options) for content in contents]
        if len(prompts) > 1 and not fields.several_inputs:
            message = f"{len(prompts)} prompts for a document that has one input"
            hint = "set multiple_inputs: true if each is scored with the same ending"
            raise DataError(message, where=self._form.config.where("doc_to_text"), hint=hint)
        return prompts if fields.several_inputs else prompts[0]

    def _content(self, prompt: Prompt) -> Content:
        if prompt.is_chat or self._media.kinds:
            self._prompts[replace(prompt, media=())] = prompt
            if len(self._prompts) > _REMEMBERED:
                del self._prompts[next(iter(self._prompts))]
        return prompt.content

    def _prompt(self, content: Prompt | str | Messages, doc: Doc, options: PromptOptions) -> Prompt:
        if isinstance(content, Prompt):
            return content
        prompt = Prompt.of(content)
        if prompt in self._prompts:
            return self._prompts[prompt]
        return self._media.place(prompt if isinstance(content, str) else self._write(content, options), doc)

    def _write(self, messages: Messages, options: PromptOptions) -> Prompt:
        if options.chat_template is not None:
            is_begun = messages[-1].get("role") == "assistant"
            return Prompt.of(options.chat_template(list(messages), add_generation_prompt=not is_begun))
        if options.apply_chat_template:
            hint = "give chat_template, or leave out apply_chat_template for plain text"
            raise UsageError("messages without a chat template to write them with", where=self._form.name, hint=hint)
        return Prompt(plain_chat(messages, self._form.delimiters))


def read_requests(returned: Any, doc_id: int, *, where: str | None) -> list[Instance]:
    """The requests that a task's own `construct_requests` returned, as instances of their document."""
    items = [] if returned is None else list(returned) if isinstance(returned, list | tuple) else [returned]
    for item in items:
        if not isinstance(item, Instance | Request):
            message = f"construct_requests returned {excerpt(item)}, which is not a request"
            hint = "return a list of multiform.requests.Instance, or None to leave the document out"
            raise DataError(message, where=where, hint=hint)
    instances = [item if isinstance(item, Instance) else Instance(doc_id, i, item) for i, item in enumerate(items)]
    return [instance if instance.doc_id == doc_id else replace(instance, doc_id=doc_id) for instance in instances]


logger = logging.getLogger("multiform")


class Renderer:
    """Renders the documents of a form, each field evaluated once.

    The form's hooks are called in the place of what it says.
    """

    def __init__(self, form: FormSpec, output_kind: OutputKind) -> None:
        self.form = form
        #: How requests are built and responses scored, by output type.
        self.output_kind = output_kind
        self.hooks = form.hooks
        self._fields = FieldSet.of_docs(form)
        self._shot_fields = FieldSet.of_shots(form, self._fields)
        self.reader = FieldReader(form.config, lambda: form.eval_docs)
        #: Documents that count as wrong whatever a model says, each as the error that says why.
        self.problems: list[DataError] = []
        self._delimiters = form.delimiters
        self._options = form.settings.prompt_options(None)
        if form.has_media:
            _ = self.media  # which refuses output types without a prompt

    @cached_property
    def media(self) -> MediaReader:
        """Reads the images and audio clips of documents."""
        return MediaReader(self.form, self.reader)

    @cached_property
    def hook_prompts(self) -> HookPrompts:
        """The prompts as the form's hooks have them."""
        return HookPrompts(self.form, self.media)

    @cached_property
    def examples(self) -> FewshotExamples:
        """Draws and renders few-shot examples."""
        return FewshotExamples(self.form, render=self._shot, label_of=lambda doc: self._fields_of_shot(doc).answer)

    def sample(self, doc_id: int, doc: Doc, chat_template: ChatTemplate | None = None) -> Sample:
        """One document, rendered. Errors name the document."""
        with locating(f"doc {doc_id}"):
            fields = self.fields(doc)
            answer_key = self._answer_key(fields)
            if answer_key.get("problem") is not None:
                self._note_problem(doc_id, answer_key["problem"])
            if self._options.chat_template is not chat_template:
                self._options = self.form.settings.prompt_options(chat_template)
            conversation = self._conversation(fields, rendered=True)
            instances = self._requests(doc_id, fields, self._options, conversation)
            sample = Sample(doc_id=doc_id, doc=doc, conversation=conversation, instances=tuple(instances), **answer_key)
            if instances and "construct_requests" in self.hooks and self.form.compares:
                self.output_kind.check_requests(sample)
            return sample

    def with_requests(self, doc_id: int, doc: Doc, instances: Sequence[Instance]) -> Sample:
        """The sample of a document whose requests are known; its prompt is not made again."""
        with locating(f"doc {doc_id}"):
            fields = self.fields(doc)
            conversation = self._conversation(fields, rendered=False)
            answer_key = self._answer_key(fields)
            return Sample(doc_id=doc_id, doc=doc, conversation=conversation, instances=tuple(instances), **answer_key)

    def _conversation(self, fields: DocFields, *, rendered: bool) -> Conversation | None:
        """The conversation of a document that has several turns; if `rendered`, with what stands before it."""
        if not isinstance(self.output_kind, ConversationKind):
            return None
        if rendered:
            [turns] = self.turns(fields, self.form.num_fewshot, self.form.settings.system_instruction, "")
        else:
            turns = [Turn("user", question) for question in self.output_kind.inputs(fields)]
        *opening, first = turns
        return self.output_kind.conversation(fields, [first, *read_turns(fields, self.reader)], opening)

    def _answer_key(self, fields: DocFields) -> dict[str, Any]:
        """What is right, as fields of a `Sample`."""
        answer_key = self.output_kind.answer_key(fields)
        if not self.form.compares or fields.several_inputs:
            return answer_key
        right = fields.right_choices
        if self.form.output_type == "multiple_choice":
            shown = fields.permutation
            right = answer_key["gold"] if shown is None else tuple(sorted(shown[i] for i in answer_key["gold"]))
        return {**answer_key, "right_choices": right}

    def fields(self, doc: Doc, *, hooks: bool = True) -> DocFields:
        """The fields of a document; without `hooks`, as the configuration has them."""
        if not hooks:
            return DocFields(doc, self.reader, replace(self._fields, overrides={}))
        return DocFields(doc, self.reader, self._fields, several_inputs=self.several_inputs)

    def _fields_of_shot(self, doc: Doc) -> DocFields:
        return DocFields(doc, self.reader, self._shot_fields, several_inputs=self.several_inputs)

    @cached_property
    def several_inputs(self) -> bool:
        """Whether documents have several prompts that share one continuation.

        Said so by the task, or found out as lm-eval does: the question of the first document is an index.
        """
        config = self.form.config
        if config.output_type != "multiple_choice":
            return False
        if "several_inputs" in self.hooks:
            return bool(self.hooks["several_inputs"]())
        if config.multiple_inputs and config.format is not None:
            message, place = "a format lays out one question, not several", config.where("multiple_inputs")
            raise ConfigError(message, where=place, hint="give the question and its choices, or run without a format")
        if config.multiple_inputs or config.format is not None or config.doc_to_choice is None:
            return config.multiple_inputs
        if config.doc_to_text is None and "doc_to_text" not in self.hooks:
            return False
        first = DocFields(self.form.eval_docs[0], self.reader, self._fields)
        return isinstance(first.question, int)

    def gold(self, doc: Doc) -> tuple[int, ...]:
        """The indexes of the right choices; an answer that is none of them is an error."""
        return ChoiceKind(self.form).gold(self.fields(doc))

    def decontamination_query(self, doc: Doc) -> str:
        """The text that is looked up in a training corpus: the task's query, or the question."""
        spec, key = self.form.config.doc_to_decontamination_query, "doc_to_decontamination_query"
        return str(self.fields(doc).question) if spec is None else self.reader.text(spec, doc, key)

    def context(self, fields: DocFields, num_fewshot: int, options: PromptOptions, gen_prefix: str) -> Context:
        """The whole prompt: system text, few-shot examples, question, beginning of the answer."""
        if self.form.config.output_type == "loglikelihood_rolling":  # a text stands by itself
            return Prompt("")
        all_turns = self.turns(fields, num_fewshot, options.system_instruction, gen_prefix)
        prompts = [render_turns(turns, options) for turns in all_turns]
        return prompts if fields.several_inputs else prompts[0]

    def turns(
        self, fields: DocFields, num_fewshot: int, system_instruction: str | None, gen_prefix: str
    ) -> list[list[Turn]]:
        """The turns of a document's prompt, or of each of its prompts if it has several inputs."""
        doc, delimiters = fields.doc, self._delimiters
        description = self.reader.text(self.form.config.description, doc, "description")
        opening = system_turns(system_instruction, description, delimiters)
        shots = self.examples.messages(doc, num_fewshot) if num_fewshot else []
        instruction = fields.instruction if shots else ""  # without examples it stays where it is
        opening += [replace(shots[0], content=instruction + shots[0].content), *shots[1:]] if instruction else shots
        questions = [question.removeprefix(instruction) for question in self.output_kind.inputs(fields)]
        turns = [opening + query_turns(self._with_media(text, doc), gen_prefix, delimiters) for text in questions]
        for prompt_turns in turns if self.form.has_media else ():
            self.media.check_turns(prompt_turns)
        return turns

    def _with_media(self, text: str, doc: Doc) -> Prompt:
        """A question with the images and audio clips of its document."""
        return self.media.place(Prompt(text), doc) if self.form.has_media else Prompt(text)

    def _shot(self, doc: Doc) -> list[Turn]:
        """A few-shot example: a document with its answer."""
        config, format, fields = self.form.fewshot, self.form.config.format, self._fields_of_shot(doc)
        delimiters = Delimiters(config.target_delimiter or "", config.fewshot_delimiter or "")
        question, answer = self.output_kind.solved_example(fields)
        if format is not None:  # the answer as the format asks for it, after its rationale if both have one
            template, rationale = format.shot_answer(), None
            if "{rationale}" in template and config.doc_to_rationale is not None:
                rationale = self.reader.value(config.doc_to_rationale, doc, "doc_to_rationale")
            answer = written_answer(template, answer, "" if rationale is None else str(rationale))
        answer = after_prefix(answer, fields.gen_prefix)
        return shot_turns(self._with_media(question, doc), answer, fields.gen_prefix, delimiters)

    def _requests(
        self, doc_id: int, fields: DocFields, options: PromptOptions, conversation: Conversation | None
    ) -> Sequence[Instance]:
        """The requests of a document; none if a task's own `construct_requests` leaves it out."""
        hooks, chat = self.hooks, options.apply_chat_template
        if "fewshot_context" in hooks:
            contents = hooks["fewshot_context"](
                fields.doc,
                num_fewshot=self.form.num_fewshot,
                system_instruction=options.system_instruction,
                apply_chat_template=chat,
                fewshot_as_multiturn=options.fewshot_as_multiturn,
                chat_template=options.chat_template,
                gen_prefix=fields.gen_prefix,
            )
            context = self.hook_prompts.to_prompts(contents, fields, options)
        elif conversation is not None:
            context = conversation.prompt((), options, self._delimiters)
        else:
            context = self.context(fields, self.form.num_fewshot, options, fields.gen_prefix)
        if "construct_requests" not in hooks:
            return self.instances(fields, context, options, doc_id=doc_id)
        construct, place = hooks["construct_requests"], self.form.config.where("class")
        arguments = {"doc_id": doc_id, "apply_chat_template": chat, "chat_template": options.chat_template}
        with running("construct_requests", where=place, hint="call it on this document to debug it"):
            contents = self.hook_prompts.contents(context)
            returned = construct(fields.doc, contents, **accepted_arguments(construct, arguments))
        return read_requests(returned, doc_id, where=place)

    def instances(
        self, fields: DocFields, context: Context, options: PromptOptions, *, doc_id: int, metadata: Any = None
    ) -> list[Instance]:
        """The requests of a document with this context, as instances of the document."""
        requests = self.output_kind.requests(fields, context, options)
        return [Instance(doc_id, index, request, metadata) for index, request in enumerate(requests)]

    def _note_problem(self, doc_id: int, problem: DataError) -> None:
        """Raise the problem of the first document, as the task is wrong then; warn about the first of others."""
        if doc_id == 0:
            raise problem
        message, where = f"{problem.what}; it counts as wrong", f"{problem.where or self.form.name}: doc {doc_id}"
        self.problems.append(DataError(message, where=where, hint=problem.hint))
        if len(self.problems) == 1:
            logger.warning("%s", self.problems[0])
