"""HFMultimodalModel: an image-text or audio-text model that transformers loads and that runs on this machine.

Log-likelihoods are computed in batches; the decoding loop is that of transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, groupby
from typing import Any, TypeVar, get_type_hints

import torch
import transformers

from multiform.errors import ModelError, UsageError, excerpt
from multiform.models.arguments import take_fields
from multiform.models.hf.load import Loaded, load
from multiform.models.hf.model import HFModel
from multiform.models.hf.multimodal_inputs import ImageOptions, Inputs, extend_inputs, placeholder_text, supported_media
from multiform.models.hf.source import ModelSource, file_options, local_folder, model_errors
from multiform.models.identity import identity
from multiform.models.model import Counters
from multiform.models.tokenizer import move_whitespace, split
from multiform.models.torch.device import fixed_rows, run_batches
from multiform.models.torch.forward import LoglikelihoodSums, Targets
from multiform.models.torch.plan import BatchLimits
from multiform.models.torch.structure import accepted_options
from multiform.models.torch.transformers_loop import generate_batch
from multiform.models.torch.tree import Tokens
from multiform.prompts.prompt import Prompt
from multiform.requests import Completion, GenerationRequest, LLOutput, LoglikelihoodRequest, Response

#: The auto class for image-text and audio-text models; older releases have one for images only.
_AUTO_CLASS = getattr(transformers, "AutoModelForMultimodalLM", transformers.AutoModelForImageTextToText)
#: Rows with images in a batch where batch_size is "auto".
_AUTO_ROWS = 4
Output = TypeVar("Output", LLOutput, Completion)


@dataclass(frozen=True, slots=True)
class MediaRow:
    """A prompt, the input tokens after it, and the continuations that are scored at its end.

    The prompt loses `cut` tokens at its end where a token spans the boundary. Each target is the
    position of its request and the last token of the continuation; the other tokens are in `added`.
    """

    prompt: Prompt
    cut: int
    added: Tokens
    targets: list[tuple[int, int]] = field(default_factory=list)


def _length(prompt: Prompt) -> int:
    """About how many tokens a prompt has; the number of an image's is known only when it has been processed."""
    return len(prompt.text) // 4 + 256 * len(prompt.media)


def check_length(length: int, max_length: int, prompt: Prompt) -> None:
    """Refuse a prompt that is too long: truncated at the left, it would lose the placeholders of its images."""
    if length > max_length:
        raise ModelError(
            f"a prompt has {length} tokens with its images and sounds, and the model reads {max_length}",
            where=excerpt(prompt.text),
            hint="make images smaller (image_max_side, max_pixels), allow fewer (max_images), or lower num_fewshot",
        )


class HFMultimodalModel(HFModel):
    """A model with a processor, from a folder or the hub; the arguments are those of `hf` and of `ImageOptions`."""

    stored = True
    more_arguments = tuple(get_type_hints(ImageOptions))

    def __init__(self, pretrained: str = "", *, batch_size: int | str = 8, **arguments: Any) -> None:
        options = take_fields(ImageOptions, arguments)
        self.options = options = replace(options, convert_img_format=bool(options.convert_img_format))
        self.processor: Any = None
        super().__init__(pretrained, batch_size=batch_size, **arguments)
        self.media = supported_media(self.processor)
        describe = partial(placeholder_text, self.processor, self.model.config, options=options, name=self.name)
        placeholders = {kind: describe(kind) for kind in self.media}
        self.inputs = Inputs(processor=self.processor, encoder=self.encoder, placeholders=placeholders, options=options)
        self.media_limits = BatchLimits(fixed_rows(batch_size) or _AUTO_ROWS, 10**9)
        settings = {"images": options, "tokens": placeholders, "interleave": options.interleave, **options.pixels}
        self.identity = identity("hf", self.name, model=self.identity, kind="hf-multimodal", **settings)

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Iterator[Response[LLOutput]]:
        prompts = [self._prompt(request) for request in requests]
        plain = [index for index, prompt in enumerate(prompts) if not prompt.media]
        texts = [LoglikelihoodRequest(prompts[index], requests[index].continuation) for index in plain]
        for position, output in super().loglikelihood(texts) if texts else ():
            yield plain[position], output
        others = [index for index, prompt in enumerate(prompts) if prompt.media]
        for position, output in self._score_media([(prompts[index], requests[index].continuation) for index in others]):
            yield others[position], output

    def generate(self, requests: Sequence[GenerationRequest]) -> Iterator[Response[Completion]]:
        prompts = [self._prompt(request) for request in requests]
        plain = [index for index, prompt in enumerate(prompts) if not prompt.media]
        texts = [GenerationRequest(prompts[index], requests[index].options, requests[index].sample) for index in plain]
        for position, output in super().generate(texts) if texts else ():
            yield plain[position], output
        others = [index for index, prompt in enumerate(prompts) if prompt.media]

        def run(batch: Sequence[int]) -> list[Response[Completion]]:
            positions = [others[number] for number in batch]
            return self._generate_batch([(index, requests[index], prompts[index]) for index in positions])

        yield from self._run_groups([prompts[index] for index in others], run)

    def _run_groups(
        self, prompts: Sequence[Prompt], run: Callable[[Sequence[int]], list[Response[Output]]]
    ) -> Iterator[Response[Output]]:
        """The responses of `run` to batches of prompts, by number, that can be processed together, longest first."""
        keys, lengths = [self.inputs.key(prompt) for prompt in prompts], [_length(prompt) for prompt in prompts]
        ordered = sorted(range(len(prompts)), key=lambda n: (str(keys[n]), -lengths[n], prompts[n].text))
        for _, group in groupby(ordered, key=keys.__getitem__):
            for responses in run_batches(list(group), lengths.__getitem__, self.media_limits, run):
                yield from responses

    def _score_media(self, pairs: Sequence[tuple[Prompt, str]]) -> Iterator[Response[LLOutput]]:
        """The log-likelihood of each continuation after its prompt.

        The labels of one question are one row, so that its images are computed once.
        """
        texts = [move_whitespace(prompt.text, continuation) for prompt, continuation in pairs]
        encoded = self.encoder.encode(text for context, moved in texts for text in (context, context + moved))
        by_input: dict[object, MediaRow] = {}
        lengths = []
        for index, ((prompt, _), (context, moved)) in enumerate(zip(pairs, texts, strict=True)):
            pair = split(encoded[context], encoded[context + moved], self.encoder.prefix_token_id)
            lengths.append(pair.continuation_length)
            if pair.inputs:
                cut = max(0, len(encoded[context]) - pair.start)
                row = MediaRow(Prompt(context, prompt.media), cut, pair.tokens[pair.start : -1])
                targets = by_input.setdefault((row.prompt, cut, row.added.tobytes()), row).targets
                targets.append((index, pair.tokens[-1]))
        rows, sums = list(by_input.values()), LoglikelihoodSums(lengths)
        yield from sums.empty()
        yield from self._run_groups(
            [row.prompt for row in rows], lambda batch: self._score_batch([rows[number] for number in batch], sums)
        )

    @torch.inference_mode()
    def _score_batch(self, rows: Sequence[MediaRow], sums: LoglikelihoodSums) -> list[Response[LLOutput]]:
        model = self.model
        tensors = self.inputs.tensors([row.prompt for row in rows], model, padding_side="right")
        keep = [int(n) - row.cut for n, row in zip(tensors["attention_mask"].sum(-1), rows, strict=True)]
        targets = Targets()
        for number, (row, start) in enumerate(zip(rows, keep, strict=True)):
            check_length(start + len(row.added), self.max_length, row.prompt)
            for index, last in row.targets:
                targets.add(index, number, start - 1, [*row.added, last])
        positions = torch.from_numpy(targets.needed_positions()).to(model.device)
        options = accepted_options(model.forward, logits_to_keep=positions)
        extended = extend_inputs(tensors, keep, [row.added for row in rows])
        logits: torch.Tensor = model(**extended, use_cache=False, **options).logits
        return sums.add(logits if options else logits[:, positions], targets)

    @torch.inference_mode()
    def _generate_batch(self, requests: Sequence[tuple[int, GenerationRequest, Prompt]]) -> list[Response[Completion]]:
        """The completions of a batch by the model's own `generate`: it alone knows how images count as positions."""
        tensors = self.inputs.tensors([prompt for _, _, prompt in requests], self.model, padding_side="left")
        generations = []
        rows = zip(requests, tensors["input_ids"], tensors["attention_mask"], strict=True)
        for (index, request, media_prompt), ids, mask in rows:
            prompt = ids[mask.bool()].tolist()
            generation = self._generation(index, request, prompt)
            check_length(len(prompt), len(generation.prompt), media_prompt)
            if generation.num_beams > 1:
                problem = "there is no beam search for prompts with images or audio"
                raise UsageError(f"num_beams is {generation.num_beams}: {problem}", hint="set num_beams=1")
            generations.append(generation)
        return generate_batch(self.model, self.tokenizer, generations, tensors, Counters())

    def _prompt(self, request: LoglikelihoodRequest | GenerationRequest) -> Prompt:
        self.check_media(medium.kind for medium in request.media)
        return self.inputs.prompt(request.prompt)

    def _load(self, source: ModelSource) -> Loaded:
        folder = local_folder(source.pretrained)
        with model_errors(source, folder):
            config = transformers.AutoConfig.from_pretrained(source.pretrained, **file_options(source, folder))
            if type(config) not in _AUTO_CLASS._model_mapping and not source.trust_remote_code:
                message = f"'{config.model_type}' is not an image-text or audio-text model of transformers"
                raise ModelError(message, where=source.pretrained, hint="use --model hf for text models")
            name = source.tokenizer or folder or source.pretrained
            trust = {"trust_remote_code": source.trust_remote_code}
            options = trust if source.tokenizer else file_options(source, folder)
            self.processor = transformers.AutoProcessor.from_pretrained(name, **options, **self.options.pixels)
        if not supported_media(self.processor):
            raise ModelError("the model's files have no processor for images or audio", where=source.pretrained)
        loaded = load(source, _AUTO_CLASS)
        tokenizer = self.processor.tokenizer
        tokenizer.pad_token = tokenizer.pad_token or loaded.tokenizer.pad_token
        tokenizer.chat_template = self.processor.chat_template or tokenizer.chat_template
        return replace(loaded, tokenizer=tokenizer)

    def _apply_template(self, messages: list[dict[str, Any]], **options: Any) -> str:
        images = count()
        chat = []
        for message in messages:
            content = message["content"]
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
            used = [part for part in parts if part["type"] != "image" or next(images) < self.options.max_images]
            if not self.options.interleave:
                texts = "".join(part["text"] for part in used if part["type"] == "text")
                used = [*(part for part in used if part["type"] != "text"), {"type": "text", "text": texts}]
            chat.append({**message, "content": used})
        return str(self.processor.apply_chat_template(chat, **options))
