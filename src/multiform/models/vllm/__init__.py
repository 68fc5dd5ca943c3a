"""Models that vLLM runs in this process.

model       VLLMModel
arguments   the arguments: lm-eval's, those of vLLM's engine, and what is refused
engine      vLLM's `LLM`, started and asked
queries     which prompts score which continuations, and their log-likelihoods from the outputs
completions generation options in vLLM's terms, and completions from the tokens that it generates
processor   the logits processor that makes vLLM generate given tokens; it runs in vLLM's own processes
load        tokenizer, generation config and hash of the files
identity    the identity of a model
"""
