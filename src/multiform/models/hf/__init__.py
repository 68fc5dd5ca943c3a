"""Local models through transformers: the one folder that imports torch.

load      a model and its tokenizer, from a folder or the hub
tokens    text to token ids, split into context and continuation
score     log-likelihoods of continuations: tree (by a plan) or rows (in batches)
generate  text after a prompt: shared (with common prefixes) or state (without)
passes    runs the passes of a plan, with packed attention where that is possible
planner   how large passes are, what is kept, and for which models plans are right (support)
model     HFModel, which ties these together
bundled   the small model that comes with Multiform
"""

from importlib.util import find_spec

from multiform.errors import ModelError

for _package in ("torch", "transformers"):
    if find_spec(_package) is None:
        raise ModelError(f"local models need the package '{_package}'", hint="run: pip install 'multiform[hf]'")
