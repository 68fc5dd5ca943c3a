"""HFMultimodalModel: an image-text or audio-text model that transformers loads and that runs on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import transformers

from multiform.errors import ModelError, UsageError
from multiform.media import Kind, MediaText
from multiform.models.hf.identity import identity
from multiform.models.hf.load import Loaded, load
from multiform.models.hf.model import HFModel
from multiform.models.hf.source import Source, file_options, local_folder, model_errors
from multiform.models.multimodal import generation, scoring
from multiform.models.multimodal.inputs import ImageOptions, Inputs, placeholder_text, supported_media
from multiform.models.torch.batching import BatchLimits, fixed_rows
from multiform.requests import Completion, GenerationRequest, LLOutput, LoglikelihoodRequest, Request, Response

#: The auto class for image-text and audio-text models; older releases have one for images only.
_AUTO_CLASS = getattr(transformers, "AutoModelForMultimodalLM", transformers.AutoModelForImageTextToText)
#: Rows with images in a batch where batch_size is "auto".
_AUTO_ROWS = 4


class HFMultimodalModel(HFModel):
    """A model with a processor, from a folder or the hub; the arguments are those of `hf` and lm-eval's for images.

    At most `max_images` of a prompt are used; `interleave=False` puts a message's images before its text.
    `convert_img_format` makes images RGB; `image_width`, `image_height` and `image_max_side` make
    larger ones smaller, and `min_pixels` and `max_pixels` are passed to the processor. `image_string` or
    `image_token_id` is the placeholder of an image, where the model's own files do not name it.
    """

    stored = True

    def __init__(
        self,
        pretrained: str = "",
        *,
        image_token_id: int | None = None,
        image_string: str | None = None,
        interleave: bool = True,
        max_images: int | None = 999,
        convert_img_format: bool = False,
        min_pixels: int | None = None,
        max_pixels: int | None = None,
        image_width: int | None = None,
        image_height: int | None = None,
        image_max_side: int | None = None,
        batch_size: int | str = 8,
        **arguments: Any,
    ) -> None:
        if image_max_side and (image_width or image_height):
            hint = "give image_max_side alone, or image_width and image_height"
            raise UsageError("image_max_side does not go with image_width and image_height", hint=hint)
        self.interleave = interleave
        self.processor: Any = None
        self._pixels = {k: v for k, v in {"min_pixels": min_pixels, "max_pixels": max_pixels}.items() if v}
        super().__init__(pretrained, batch_size=batch_size, **arguments)
        self.media = supported_media(self.processor)
        options = ImageOptions(
            max_images=999 if max_images is None else int(max_images),
            convert_img_format=bool(convert_img_format),
            image_width=image_width,
            image_height=image_height,
            image_max_side=image_max_side,
        )
        placeholders = {kind: self._placeholder(kind, image_string, image_token_id) for kind in self.media}
        self.inputs = Inputs(processor=self.processor, encoder=self.encoder, placeholders=placeholders, options=options)
        self.media_limits = BatchLimits(fixed_rows(batch_size) or _AUTO_ROWS, 10**9)
        settings = {"images": options, "tokens": placeholders, "interleave": interleave, **self._pixels}
        self.identity = identity(self.name, model=self.identity, kind="hf-multimodal", **settings)

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Iterator[Response[LLOutput]]:
        prompts = [self._prompt(request) for request in requests]
        plain = [index for index, prompt in enumerate(prompts) if not prompt.media]
        texts = [LoglikelihoodRequest(str(prompts[index]), requests[index].continuation) for index in plain]
        for position, output in super().loglikelihood(texts) if texts else ():
            yield plain[position], output
        others = [index for index, prompt in enumerate(prompts) if prompt.media]
        pairs = [(prompts[index], requests[index].continuation) for index in others]
        responses = scoring.score(self.model, self.inputs, pairs, self.media_limits, self.max_length)
        for position, output in responses:
            yield others[position], output

    def generate(self, requests: Sequence[GenerationRequest]) -> Iterator[Response[Completion]]:
        prompts = [self._prompt(request) for request in requests]
        plain = [index for index, prompt in enumerate(prompts) if not prompt.media]
        texts = [replace(requests[index], context=str(prompts[index]), media=()) for index in plain]
        for position, output in super().generate(texts) if texts else ():
            yield plain[position], output
        with_media = [
            generation.MediaRequest(index, requests[index], prompt)
            for index, prompt in enumerate(prompts)
            if prompt.media
        ]
        yield from generation.generate(self.model, self.inputs, with_media, self.media_limits, self._generation)

    def plan(self, requests: Sequence[Request]) -> str | None:
        return None  # the number of an image's tokens is known only when it has been processed

    def _prompt(self, request: LoglikelihoodRequest | GenerationRequest) -> MediaText:
        self.check_media(medium.kind for medium in request.media)
        return self.inputs.prompt(request.context, request.media)

    def _placeholder(self, kind: Kind, image_string: str | None, image_token_id: int | None) -> str:
        if kind == "image" and image_string:
            return image_string
        token_id = int(image_token_id) if kind == "image" and image_token_id is not None else None
        return placeholder_text(self.processor, self.model.config, kind, name=self.name, token_id=token_id)

    def _load(self, source: Source) -> Loaded:
        folder = local_folder(source.pretrained)
        with model_errors(source, folder):
            config = transformers.AutoConfig.from_pretrained(source.pretrained, **file_options(source, folder))
            if type(config) not in _AUTO_CLASS._model_mapping and not source.trust_remote_code:
                message = f"'{config.model_type}' is no image-text or audio-text model of transformers"
                raise ModelError(message, where=source.pretrained, hint="use --model hf for text models")
            name = source.tokenizer or folder or source.pretrained
            trust = {"trust_remote_code": source.trust_remote_code}
            options = trust if source.tokenizer else file_options(source, folder)
            self.processor = transformers.AutoProcessor.from_pretrained(name, **options, **self._pixels)
        if not supported_media(self.processor):
            raise ModelError("the model's files have no processor for images or audio", where=source.pretrained)
        loaded = load(source, _AUTO_CLASS)
        tokenizer = self.processor.tokenizer
        tokenizer.pad_token = tokenizer.pad_token or loaded.tokenizer.pad_token
        tokenizer.chat_template = self.processor.chat_template or tokenizer.chat_template
        return replace(loaded, tokenizer=tokenizer)

    def _apply_template(self, messages: list[dict[str, Any]], **options: Any) -> str:
        images = 0
        chat = []
        for message in messages:
            content = message["content"]
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
            used = []
            for part in parts:
                images += part["type"] == "image"
                if part["type"] != "image" or images <= self.inputs.options.max_images:
                    used.append(part)
            if not self.interleave:
                texts = "".join(part["text"] for part in used if part["type"] == "text")
                used = [*(part for part in used if part["type"] != "text"), {"type": "text", "text": texts}]
            chat.append({**message, "content": used})
        return str(self.processor.apply_chat_template(chat, **options))
