"""Sizes of texts."""


def count_bytes(text: str, /, *, encoding: str = "utf-8") -> int:
    """The number of bytes of a text."""
    return len(text.encode(encoding))
