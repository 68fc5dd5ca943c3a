"""Arguments of lm-eval's server models: other names for ours, and those that are not needed here."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from multiform.errors import UsageError
from multiform.models.base import LOCAL_ARGUMENTS

logger = logging.getLogger("multiform")

#: lm-eval's names and ours.
_NAMES = {
    "pretrained": "model",
    "header": "headers",
    "auth_token": "api_key",
    "custom_prefix_token_id": "prefix_token_id",
}
#: Arguments that change nothing, and why.
_NOT_NEEDED = {
    "tokenizer_backend": "a tokenizer that is named is one of transformers",
    "truncate": "prompts that are too long are cut at the left where a tokenizer is named",
    "revision": "the tokenizer is the newest one",
    "use_fast_tokenizer": "the tokenizer is the one that transformers gives",
    "eos_string": "the server ends texts",
    "max_images": "all images of a prompt are sent",
    "max_gen_toks": "the task or --gen_kwargs says it",
}
_CERTIFICATES = "set SSL_CERT_FILE to the certificate of the server's authority"


def our_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments under our names, without those that are not needed.

    >>> our_arguments({"pretrained": "m", "tokenizer": "t", "tokenized_requests": False, "device": "cpu"})
    {'model': 'm'}
    """
    made: dict[str, Any] = {}
    for name, value in given.items():
        if name == "ca_cert_path" or (name == "verify_certificate" and value is False):
            raise UsageError(f"the model argument '{name}' is not supported", hint=_CERTIFICATES)
        if name in _NOT_NEEDED:
            logger.info("the model argument '%s' changes nothing: %s", name, _NOT_NEEDED[name])
        elif name not in (*LOCAL_ARGUMENTS, "verify_certificate"):
            made.setdefault(_NAMES.get(name, name), value)
    if made.pop("tokenized_requests", None) is False:  # text is what goes to the server without a tokenizer
        made.pop("tokenizer", None)
    return made
