"""Models of transformers that run on this machine.

model              HFModel, a decoder-only or encoder-decoder model, and the small one that comes with Multiform
source             which model to load, and how: number type, device, quantization and placement of the weights
load               the model, its tokenizer and its chat template
multimodal         HFMultimodalModel, for images and audio
multimodal_inputs  prompts with images and audio as input tensors
"""

from importlib.util import find_spec

from multiform.errors import ModelError

for _package in ("torch", "transformers"):
    if find_spec(_package) is None:
        raise ModelError(f"local models need the package '{_package}'", hint="run: pip install 'multiform[hf]'")
