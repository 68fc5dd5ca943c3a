"""Models of transformers that run on this machine.

model     HFModel, a decoder-only or encoder-decoder model
backend   how a decoder-only model tokenizes, scores and generates
source    which files to load
load      the model, its tokenizer and its chat template
weights   number type, device, quantization and placement of the weights
identity  the identity of a model
bundled   the small model that comes with Multiform (package: where its files are)
"""

from importlib.util import find_spec

from multiform.errors import ModelError

for _package in ("torch", "transformers"):
    if find_spec(_package) is None:
        raise ModelError(f"local models need the package '{_package}'", hint="run: pip install 'multiform[hf]'")
