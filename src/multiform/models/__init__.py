"""Models: one small interface, and what implements it.

base        Model, the interface
registry    the models by name
arguments   checks of the arguments that a model is created with
content     hashes of the files of a model
tokenizer   text to token ids, and back to contexts and continuations
chat        chat templates
local       what models that run on this machine share
instruction_set  half precision on CPUs that trap AMX
hf/         models of transformers: loading, and the bundled model
seq2seq/    encoder-decoder models of transformers
multimodal/ image-text and audio-text models of transformers
vllm/       models that vLLM runs in this process
servers/    what all models behind a server share
openai/     servers that speak OpenAI's protocol
anthropic   Anthropic's messages
gemini      Google's generateContent
dummy       a model for tests and dry runs
"""

from multiform.models.base import Completions, Loglikelihoods, Model
from multiform.models.registry import ModelEntry, models, register_model

__all__ = ["Completions", "Loglikelihoods", "Model", "ModelEntry", "models", "register_model"]
