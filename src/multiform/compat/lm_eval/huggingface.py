"""HFLM: our model of transformers, with the arguments of lm-eval's."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from multiform.compat.lm_eval.model_helpers import DEFAULT_MAX_GEN_TOKS, has_bos_prefix
from multiform.compat.lm_eval.models import ModelLM
from multiform.errors import UsageError
from multiform.models.hf.load import Loaded, check_backend, load_tokenizer
from multiform.models.hf.load import load as load_files
from multiform.models.hf.model import HFModel
from multiform.models.hf.source import ModelSource, local_folder
from multiform.models.model import Model
from multiform.models.tokenizer import prefix_tokens

#: Methods by which subclasses of lm-eval's HFLM change what it does inside; ours does not work by them.
_INSIDE = (
    "_model_call",
    "_model_generate",
    "_loglikelihood_tokens",
    "_encode_pair",
    "_create_model",
    "_create_tokenizer",
    "_select_cont_toks",
    "tok_batch_encode",
)


class HFLM(ModelLM):
    """A model: a folder, a name on the hub, or a model of transformers that is already loaded."""

    model_name = "hf"
    wrapped: HFModel
    AUTO_MODEL_CLASS: ClassVar[Any] = None

    def __init__(self, pretrained: Any, backend: str = "default", **arguments: Any) -> None:
        for name in _INSIDE:
            if getattr(type(self), name, None) is not getattr(HFLM, name, None):
                message = f"{type(self).__name__} overrides {name}, by which our HFLM does not work"
                raise UsageError(message, where="HFLM", hint="override loglikelihood and generate_until instead")
        super().__init__(pretrained=pretrained, backend=backend, **arguments)
        self.pretrained = pretrained
        self.revision = str(arguments.get("revision") or "main")
        self.add_bos_token: bool | None = arguments.get("add_bos_token")
        self.truncation = bool(arguments.get("truncation"))
        self.batch_size: int | str = arguments.get("batch_size") or "auto"

    def _load(self, arguments: dict[str, Any]) -> Model:
        stated = {key: value for key, value in arguments.items() if value is not None}
        if "dtype" in stated:
            stated["dtype"] = str(stated["dtype"]).removeprefix("torch.")
        names = ("pretrained", "tokenizer")
        objects = {key: stated.pop(key) for key in names if not isinstance(stated.get(key), str | os.PathLike | None)}
        return _GivenModel(objects, **stated) if objects else HFModel(**stated)

    @property
    def model(self) -> Any:
        return self.wrapped.model

    @property
    def tokenizer(self) -> Any:
        return self.wrapped.tokenizer

    @property
    def config(self) -> Any:
        return self.wrapped.model.config

    @property
    def device(self) -> Any:
        return self.wrapped.model.device

    @property
    def max_length(self) -> int:
        return self.wrapped.max_length

    @property
    def max_gen_toks(self) -> int:
        """The limit of tokens where a task sets none."""
        return DEFAULT_MAX_GEN_TOKS

    @property
    def backend(self) -> str:
        return "seq2seq" if getattr(self.config, "is_encoder_decoder", False) else "causal"

    @property
    def vocab_size(self) -> int:
        return int(self.tokenizer.vocab_size)

    @property
    def eot_token_id(self) -> int:
        return int(self.tokenizer.eos_token_id)

    @property
    def prefix_token_id(self) -> int:
        return prefix_tokens(self.wrapped.encoder.prefix_token_id)[0]

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: Any) -> list[int]:
        """The tokens of a text; with the tokenizer's special ones unless that is said."""
        more = {} if add_special_tokens is None else {"add_special_tokens": add_special_tokens}
        return list(self.tokenizer.encode(string, **more))

    def tok_batch_encode(
        self,
        strings: list[str],
        padding_side: str = "left",
        left_truncate_len: int | None = None,
        truncation: bool = False,
    ) -> tuple[Any, Any]:
        """The tokens of texts and their attention mask, as tensors; the longest text decides the length."""
        bos = has_bos_prefix(strings[0], getattr(self.tokenizer, "bos_token", None))
        special = False if bos else self.add_bos_token
        more = {} if special is None or self.backend != "causal" else {"add_special_tokens": special}
        encoded = self.tokenizer(
            strings,
            truncation=truncation,
            padding="longest",
            padding_side=padding_side,
            return_tensors="pt",
            **more,
        )
        first = -left_truncate_len if left_truncate_len else None
        return encoded["input_ids"][:, first:], encoded["attention_mask"][:, first:]

    def tok_decode(self, tokens: Sequence[int], skip_special_tokens: bool = True) -> str:
        """The text of tokens."""
        return str(self.tokenizer.decode(tokens, skip_special_tokens=skip_special_tokens))


class _GivenModel(HFModel):
    """A model or tokenizer that a script has loaded; nobody can say what its weights are."""

    def __init__(self, objects: dict[str, Any], **arguments: Any) -> None:
        self._objects = objects
        model = objects.get("pretrained")
        name = getattr(model, "name_or_path", "") or type(model).__name__
        super().__init__(**{"pretrained": name, **arguments})

    def _load(self, source: ModelSource) -> Loaded:
        model, tokenizer = self._objects.get("pretrained"), self._objects.get("tokenizer")
        sha = uuid.uuid4().hex
        if model is None:
            return replace(load_files(source), tokenizer=tokenizer, sha=sha)
        check_backend(source, model.config)
        if tokenizer is None:
            tokenizer = load_tokenizer(source, local_folder(source.pretrained))
        elif tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.unk_token or tokenizer.eos_token
        return Loaded(model=model.eval(), tokenizer=tokenizer, name=source.pretrained, sha=sha)
