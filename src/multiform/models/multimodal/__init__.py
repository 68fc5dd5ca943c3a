"""Image-text and audio-text models of transformers.

model      HFMultimodalModel
inputs     prompts with images and audio as tensors
scoring    log-likelihoods of continuations
generation completions, by the decoding loop of transformers
"""

import multiform.models.hf  # noqa: F401 - says which package is missing where torch or transformers is
