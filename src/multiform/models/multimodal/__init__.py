"""Image-text and audio-text models of transformers."""

import multiform.models.hf  # noqa: F401 - says which package is missing where torch or transformers is
