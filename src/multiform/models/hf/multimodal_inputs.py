"""Prompts with images and audio as the input tensors of a multimodal model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

import jinja2
from torch import Tensor

from multiform.errors import ModelError, UsageError
from multiform.models.tokenizer import Encoder
from multiform.prompts.chat import apply_bounded, select_template
from multiform.prompts.media import MARKS, Kind
from multiform.prompts.prompt import Prompt

if TYPE_CHECKING:
    from PIL.Image import Image

#: Texts around an image in a chat, between which the template writes its placeholder.
_BEFORE, _AFTER = "multiformbefore", "multiformafter"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageOptions:
    """How images are prepared for the model's own processor, under lm-eval's names.

    At most `max_images` of a prompt are used; `interleave=False` puts a message's images before its text.
    `convert_img_format` makes images RGB; `image_width`, `image_height` and `image_max_side` make larger ones smaller,
    and `min_pixels` and `max_pixels` are passed to the processor. `image_string` or `image_token_id` is the placeholder
    of an image, where the model's own files do not name it.
    """

    max_images: int = 999
    convert_img_format: bool = False
    image_width: int | None = None
    image_height: int | None = None
    image_max_side: int | None = None
    # The identity of a model has the text of those above, and these apart.
    interleave: bool = field(default=True, repr=False)
    min_pixels: int | None = field(default=None, repr=False)
    max_pixels: int | None = field(default=None, repr=False)
    image_string: str | None = field(default=None, repr=False)
    image_token_id: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.image_max_side and (self.image_width or self.image_height):
            hint = "give image_max_side alone, or image_width and image_height"
            raise UsageError("image_max_side does not go with image_width and image_height", hint=hint)

    @property
    def pixels(self) -> dict[str, int]:
        """The limits that the processor gets."""
        return {name: limit for name in ("min_pixels", "max_pixels") if (limit := getattr(self, name))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """A processor of transformers with its settings; `placeholders` stand for images and audio in its texts."""

    processor: Any
    encoder: Encoder
    placeholders: Mapping[Kind, str]
    options: ImageOptions

    def prompt(self, prompt: Prompt) -> Prompt:
        """A request's prompt with the model's own placeholders in the place of ours.

        One from a chat template has them already. Images beyond `max_images` are dropped with their
        placeholders.
        """
        text, images = prompt.text, count()
        used = [each for each in prompt.media if each.kind != "image" or next(images) < self.options.max_images]
        for kind in dict.fromkeys(medium.kind for medium in prompt.media):
            total, number = (sum(medium.kind == kind for medium in group) for group in (prompt.media, used))
            text = self._with_placeholders(text, kind, total, number)
        return Prompt(text, tuple(used))

    def key(self, prompt: Prompt) -> tuple[bool | None, tuple[Kind, ...]]:
        """What prompts must have in common to be processed together."""
        bos = self.encoder.tokenizer.bos_token
        has_bos = isinstance(bos, str) and prompt.text.startswith(bos)
        kinds = tuple(sorted({medium.kind for medium in prompt.media}))
        # A chat template may have written the first token; the tokenizer must not add another.
        return False if has_bos else self.encoder.add_bos_token, kinds

    def tensors(self, prompts: Sequence[Prompt], model: Any, *, padding_side: str) -> dict[str, Any]:
        """The model's inputs for prompts with the same `key`, on its device and in its number type."""
        special, _ = self.key(prompts[0])
        options: dict[str, Any] = {} if special is None else {"add_special_tokens": special}
        images = [
            [prepare_image(medium.image(), self.options) for medium in prompt.media if medium.kind == "image"]
            for prompt in prompts
        ]
        if any(images):
            options["images"] = images
        clips = [medium for prompt in prompts for medium in prompt.media if medium.kind == "audio"]
        if clips:
            rate = int(_audio_processor(self.processor).sampling_rate)
            waveforms = [clip.waveform().resample(rate).samples for clip in clips]
            options |= {"audio": waveforms, "sampling_rate": rate}
        texts = [prompt.text for prompt in prompts]
        tensors = self.processor(text=texts, padding=True, padding_side=padding_side, return_tensors="pt", **options)
        return dict(tensors.to(model.device, model.dtype))

    def _with_placeholders(self, text: str, kind: Kind, total: int, number: int) -> str:
        placeholder, mark = self.placeholders[kind], MARKS[kind]
        if number and text.count(placeholder) == number:
            return text
        if text.count(mark) != total:
            message = (
                f"the prompt has {text.count(mark)} marks {mark} and {text.count(placeholder)} tokens {placeholder}"
            )
            hint = "name what stands for an image in this model's texts with image_string"
            raise ModelError(f"{message} for {number} of kind {kind}", hint=hint)
        segments = text.split(mark)
        return "".join(segment + placeholder for segment in segments[:number]) + "".join(segments[number:])


def prepare_image(image: Image, options: ImageOptions) -> Image:
    """The image, made smaller where it exceeds the maximum width, height or longer side, and RGB if that is asked."""
    wide, high = image.size
    limits = (options.image_width, wide), (options.image_height, high), (options.image_max_side, max(wide, high))
    ratio = min((limit / side for limit, side in limits if limit), default=1.0)
    if ratio < 1:
        image = image.resize((max(1, int(wide * ratio)), max(1, int(high * ratio))))
    return image.convert("RGB") if options.convert_img_format else image


def supported_media(processor: Any) -> frozenset[Kind]:
    """The kinds of media that a processor supports."""
    processors: dict[Kind, Any] = {
        "image": getattr(processor, "image_processor", None),
        "audio": _audio_processor(processor),
    }
    return frozenset(kind for kind, part in processors.items() if part is not None)


def placeholder_text(processor: Any, config: Any, kind: Kind, options: ImageOptions, *, name: str) -> str:
    """The placeholder of one image or audio clip in the model's prompts.

    Unless the options name that of an image, it is what the model's own chat template writes, including special tokens
    around it; where the template does not tell, it is the token that the processor or the configuration names.
    """
    if kind == "image" and options.image_string:
        return options.image_string
    if kind == "image" and options.image_token_id is not None:
        return str(processor.tokenizer.decode([options.image_token_id]))
    token = getattr(processor, f"{kind}_token", None)
    if token is None:
        for field in (f"{kind}_token_id", f"{kind}_token_index"):
            if getattr(config, field, None) is not None:
                token = processor.tokenizer.decode([getattr(config, field)])
    from_template = _template_placeholder(processor, kind, name)
    if from_template and (token is None or str(token) in from_template):
        return from_template
    if token is None:
        hint = "name it with image_string" if kind == "image" else "use a model whose processor names it"
        raise ModelError(f"nothing says what stands for {kind} in the model's texts", where=name, hint=hint)
    return str(token)


def _template_placeholder(processor: Any, kind: Kind, name: str) -> str:
    """The special tokens that the chat template writes for an image or an audio clip."""
    if not getattr(processor, "chat_template", None):
        return ""
    parts = [{"type": "text", "text": _BEFORE}, {"type": kind}, {"type": "text", "text": _AFTER}]
    try:
        template = select_template(processor.chat_template, None) or ""
        chat = [{"role": "user", "content": parts}]
        text = apply_bounded(lambda: processor.apply_chat_template(chat, tokenize=False), template, name)
    except (jinja2.TemplateError, TypeError, ValueError, KeyError):
        return ""
    between = text.partition(_BEFORE)[2].partition(_AFTER)[0] if _AFTER in text else ""
    special = "|".join(re.escape(token) for token in processor.tokenizer.get_added_vocab())
    # Words and line breaks around the special tokens belong to the template.
    match = re.search(f"(?:{special})(?:.*(?:{special}))?", between, re.DOTALL) if special else None
    return match[0] if match else ""


def extend_inputs(tensors: Mapping[str, Any], keep: Sequence[int], added: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Right-padded inputs in which each row keeps its first `keep` tokens, followed by the `added` ones.

    Other per-token inputs are extended as for text.
    """
    ids: Tensor = tensors["input_ids"]
    width = max(number + len(more) for number, more in zip(keep, added, strict=True))
    inputs = dict(tensors)
    for name in ("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids", "cross_attention_mask"):
        if name in tensors:
            old: Tensor = tensors[name]
            new = old.new_zeros((len(ids), width, *old.shape[2:]))
            for row, (number, more) in enumerate(zip(keep, added, strict=True)):
                new[row, :number] = old[row, :number]
                if name == "input_ids":
                    new[row, number : number + len(more)] = ids.new_tensor(list(more))
                elif name not in ("token_type_ids", "mm_token_type_ids"):
                    new[row, number : number + len(more)] = old[row, number - 1]
            inputs[name] = new
    return inputs


def _audio_processor(processor: Any) -> Any:
    return getattr(processor, "feature_extractor", None) or getattr(processor, "audio_processor", None)
