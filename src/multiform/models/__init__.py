"""Models: one small interface, and what implements it.

model               Model, the interface; Usage, the tokens that a model has computed
registry            the models by name
arguments           checks of the arguments of models and of generations
identity            the identity of a model on this machine, and hashes of its files
tokenizer           text to token ids, and back to contexts and continuations; windows over long texts
local               what models that run on this machine share
instruction_set     half precision on CPUs that trap AMX
torch/              the torch engine: plan, KV cache, scoring, decoding
hf/                 models of transformers, of text, images and audio; the bundled model
vllm/               models that vLLM runs in this process
servers/            models behind a server: OpenAI's protocol, Anthropic's, Google's
foreign             models that were written for lm-eval
dummy               a model for tests and dry runs
"""

from multiform.models.model import Completions, Loglikelihoods, Model
from multiform.models.registry import ModelEntry, models, register_model

__all__ = ["Completions", "Loglikelihoods", "Model", "ModelEntry", "models", "register_model"]
