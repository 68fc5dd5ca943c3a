"""Texts with images and sounds as the tensors that a multimodal model reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from multiform.errors import ModelError
from multiform.media import MARKS, Kind, Media, MediaText
from multiform.models.tokenizer import Encoder

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageOptions:
    """What is done with images before the model's own processor gets them; the names are lm-eval's."""

    max_images: int = 999
    convert_img_format: bool = False
    image_width: int | None = None
    image_height: int | None = None
    image_max_side: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """A processor of transformers with its settings; `tokens` are what stands for an image or a sound in its texts."""

    processor: Any
    encoder: Encoder
    tokens: Mapping[Kind, str]
    options: ImageOptions

    def prompt(self, context: str, media: Sequence[Media]) -> MediaText:
        """A request's context as the processor wants it: its marks are the model's own tokens.

        A context that a chat template made has the tokens already. Images beyond `max_images` are
        left out, and so are their marks.
        """
        kept = self._kept(media)
        for kind in dict.fromkeys(one.kind for one in media):
            total, number = (sum(one.kind == kind for one in some) for some in (media, kept))
            context = self._with_tokens(context, kind, total, number)
        return MediaText(context, kept)

    def key(self, prompt: MediaText) -> tuple[bool | None, tuple[Kind, ...]]:
        """What prompts must have in common to go through the processor together."""
        bos = self.encoder.tokenizer.bos_token
        begun = isinstance(bos, str) and prompt.startswith(bos)
        # A chat template may have written the first token; the tokenizer is not to add another.
        return False if begun else self.encoder.add_bos_token, tuple(sorted({one.kind for one in prompt.media}))

    def tensors(self, prompts: Sequence[MediaText], model: Any, *, padding_side: str) -> dict[str, Any]:
        """The inputs of a model for prompts of one key, on its device and in its number type."""
        special, _ = self.key(prompts[0])
        options: dict[str, Any] = {} if special is None else {"add_special_tokens": special}
        images = [[self._image(one) for one in prompt.media if one.kind == "image"] for prompt in prompts]
        if any(images):
            options["images"] = images
        sounds = [one for prompt in prompts for one in prompt.media if one.kind == "audio"]
        if sounds:
            rate = int(_audio_processor(self.processor).sampling_rate)
            options |= {"audio": [one.wave().at(rate).samples for one in sounds], "sampling_rate": rate}
        texts = [str(prompt) for prompt in prompts]
        made = self.processor(text=texts, padding=True, padding_side=padding_side, return_tensors="pt", **options)
        return dict(made.to(model.device, model.dtype))

    def _kept(self, media: Sequence[Media]) -> list[Media]:
        kept: list[Media] = []
        for one in media:
            if one.kind != "image" or sum(other.kind == "image" for other in kept) < self.options.max_images:
                kept.append(one)
        return kept

    def _with_tokens(self, text: str, kind: Kind, total: int, number: int) -> str:
        token, mark = self.tokens[kind], MARKS[kind]
        if number and text.count(token) == number:
            return text
        if text.count(mark) != total:
            what = f"the prompt has {text.count(mark)} marks {mark} and {text.count(token)} tokens {token}"
            hint = "name what stands for an image in this model's texts with image_string"
            raise ModelError(f"{what} for {number} of kind {kind}", hint=hint)
        pieces = text.split(mark)
        return "".join(piece + token for piece in pieces[:number]) + "".join(pieces[number:])

    def _image(self, media: Media) -> Image:
        image = resized(media.image(), self.options)
        return image.convert("RGB") if self.options.convert_img_format else image


def resized(image: Image, options: ImageOptions) -> Image:
    """The image made smaller, if need be, to fit into the width and height or to have no longer side than given."""
    wide, high = image.size
    limits = (options.image_width, wide), (options.image_height, high), (options.image_max_side, max(wide, high))
    ratio = min((limit / side for limit, side in limits if limit), default=1.0)
    if ratio >= 1:
        return image
    return image.resize((max(1, int(wide * ratio)), max(1, int(high * ratio))))


def readable(processor: Any) -> frozenset[Kind]:
    """What a processor makes tensors of, beside text."""
    found: dict[Kind, Any] = {
        "image": getattr(processor, "image_processor", None),
        "audio": _audio_processor(processor),
    }
    return frozenset(kind for kind, part in found.items() if part is not None)


def extended(tensors: Mapping[str, Any], keep: Sequence[int], added: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Right-padded inputs of which each row keeps so many tokens and gets others after them.

    Whatever else is said of each token is extended as for text.
    """
    ids: Tensor = tensors["input_ids"]
    width = max(number + len(more) for number, more in zip(keep, added, strict=True))
    made = dict(tensors)
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
            made[name] = new
    return made


def _audio_processor(processor: Any) -> Any:
    return getattr(processor, "feature_extractor", None) or getattr(processor, "audio_processor", None)
