"""HFMultimodalModel: an image-text or audio-text model that transformers loads and this machine runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import transformers

from multiform.errors import ModelError, UsageError
from multiform.inference.limits import Limits, fixed_rows
from multiform.media import Kind, MediaText
from multiform.models.hf.accepted import check_others
from multiform.models.hf.identity import identity
from multiform.models.hf.load import Loaded, load
from multiform.models.hf.model import HFModel, known
from multiform.models.hf.source import Source, file_options, local_folder, model_errors
from multiform.models.multimodal import generate as multimodal_generate
from multiform.models.multimodal import score as multimodal_score
from multiform.models.multimodal.inputs import ImageOptions, Inputs, readable
from multiform.models.multimodal.tokens import media_token
from multiform.requests import Completion, GenerationRequest, LLOutput, LoglikelihoodRequest, Request, Response

#: The class of auto classes that knows image-text and audio-text models; older releases have only the first.
_AUTO = getattr(transformers, "AutoModelForMultimodalLM", transformers.AutoModelForImageTextToText)
#: Rows with images that are read at once where batch_size is "auto".
_AUTO_ROWS = 4


class HFMultimodalModel(HFModel):
    """A model with a processor, from a folder or the hub; the arguments are those of `hf` and lm-eval's for images.

    `max_images` are used of a prompt, `interleave=False` puts a message's images before its text,
    `convert_img_format` makes them RGB; `image_width`, `image_height` and `image_max_side` make
    larger ones smaller, `min_pixels` and `max_pixels` go to the processor. `image_string` or
    `image_token_id` say what stands for an image, where the model's own files do not.
    """

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
        names = _known()
        check_others({name: value for name, value in arguments.items() if name not in names}, names)
        if image_max_side and (image_width or image_height):
            hint = "give image_max_side alone, or image_width and image_height"
            raise UsageError("image_max_side does not go with image_width and image_height", hint=hint)
        self.interleave = interleave
        self.processor: Any = None
        self._pixels = {k: v for k, v in {"min_pixels": min_pixels, "max_pixels": max_pixels}.items() if v}
        super().__init__(pretrained, batch_size=batch_size, **arguments)
        self.media = readable(self.processor)
        options = ImageOptions(
            max_images=999 if max_images is None else int(max_images),
            convert_img_format=bool(convert_img_format),
            image_width=image_width,
            image_height=image_height,
            image_max_side=image_max_side,
        )
        tokens = {kind: self._token(kind, image_string, image_token_id) for kind in self.media}
        self.inputs = Inputs(processor=self.processor, encoder=self.encoder, tokens=tokens, options=options)
        self.media_limits = Limits(fixed_rows(batch_size) or _AUTO_ROWS, 10**9)
        settings = {"images": options, "tokens": tokens, "interleave": interleave, **self._pixels}
        self.identity = identity(self.name, model=self.identity, kind="hf-multimodal", **settings)

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Iterator[Response[LLOutput]]:
        prompts = [self._prompt(request) for request in requests]
        plain = [index for index, prompt in enumerate(prompts) if not prompt.media]
        texts = [LoglikelihoodRequest(str(prompts[index]), requests[index].continuation) for index in plain]
        for position, output in super().loglikelihood(texts) if texts else ():
            yield plain[position], output
        others = [index for index, prompt in enumerate(prompts) if prompt.media]
        asked = [(prompts[index], requests[index].continuation) for index in others]
        scored = multimodal_score.score(self.model, self.inputs, asked, self.media_limits, self.max_length)
        for position, output in scored:
            yield others[position], output

    def generate(self, requests: Sequence[GenerationRequest]) -> Iterator[Response[Completion]]:
        prompts = [self._prompt(request) for request in requests]
        plain = [index for index, prompt in enumerate(prompts) if not prompt.media]
        texts = [replace(requests[index], context=str(prompts[index]), media=()) for index in plain]
        for position, output in super().generate(texts) if texts else ():
            yield plain[position], output
        asked = [
            multimodal_generate.Asked(index, requests[index], prompt)
            for index, prompt in enumerate(prompts)
            if prompt.media
        ]
        yield from multimodal_generate.generate(self.model, self.inputs, asked, self.media_limits, self._row)

    def plan(self, requests: Sequence[Request]) -> str | None:
        return None  # how many tokens an image is shows only when it has been processed

    def _prompt(self, request: LoglikelihoodRequest | GenerationRequest) -> MediaText:
        self.check_media(one.kind for one in request.media)
        return self.inputs.prompt(request.context, request.media)

    def _token(self, kind: Kind, image_string: str | None, image_token_id: int | None) -> str:
        if kind == "image" and image_string:
            return image_string
        token_id = int(image_token_id) if kind == "image" and image_token_id is not None else None
        return media_token(self.processor, self.model.config, kind, name=self.name, token_id=token_id)

    def _load(self, source: Source) -> Loaded:
        folder = local_folder(source.pretrained)
        with model_errors(source, folder):
            config = transformers.AutoConfig.from_pretrained(source.pretrained, **file_options(source, folder))
            if type(config) not in _AUTO._model_mapping and not source.trust_remote_code:
                what = f"'{config.model_type}' is no image-text or audio-text model of transformers"
                raise ModelError(what, where=source.pretrained, hint="use --model hf for text models")
            named = source.tokenizer or folder or source.pretrained
            own = {"trust_remote_code": source.trust_remote_code}
            options = own if source.tokenizer else file_options(source, folder)
            self.processor = transformers.AutoProcessor.from_pretrained(named, **options, **self._pixels)
        if not readable(self.processor):
            raise ModelError("the model's files have no processor for images or audio", where=source.pretrained)
        loaded = load(source, _AUTO)
        tokenizer = self.processor.tokenizer
        tokenizer.pad_token = tokenizer.pad_token or loaded.tokenizer.pad_token
        tokenizer.chat_template = self.processor.chat_template or tokenizer.chat_template
        return replace(loaded, tokenizer=tokenizer)

    def _write_chat(self, messages: list[dict[str, Any]], **options: Any) -> str:
        images = 0
        chat = []
        for message in messages:
            content = message["content"]
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
            kept = []
            for part in parts:
                images += part["type"] == "image"
                if part["type"] != "image" or images <= self.inputs.options.max_images:
                    kept.append(part)
            if not self.interleave:
                texts = "".join(part["text"] for part in kept if part["type"] == "text")
                kept = [*(part for part in kept if part["type"] != "text"), {"type": "text", "text": texts}]
            chat.append({**message, "content": kept})
        return str(self.processor.apply_chat_template(chat, **options))


def _known() -> list[str]:
    """The names of all arguments, those of text models among them."""
    own = [name for name in HFMultimodalModel.__init__.__annotations__ if name not in ("arguments", "return")]
    return [*known(), *own]
