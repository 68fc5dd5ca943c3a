"""Models that vLLM runs in this process.

model       VLLMModel
engine      vLLM's `LLM`, started and asked, and the files of the model that it runs
queries     which prompts score which continuations, and their log-likelihoods from the outputs
processor   the logits processor that makes vLLM generate given tokens; it runs in vLLM's own processes
"""
