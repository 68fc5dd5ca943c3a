"""The torch engine: forward passes, scoring and decoding on a causal language model, however it was loaded.

plan/        which tokens each forward pass computes, from the prefix tree of all sequences (pure, without torch)
sequences    the token sequences that are scored and decoded
plain        the plain forward pass of one sequence, which judges everything else
forward      runs the forward passes of a plan
attention    attention in which every token sees its own prefix only
kv_cache     keys and values of past tokens
lm_head      logits at chosen positions
scoring/     log-likelihoods of continuations: by plan, or in batches
decode/      completions: continuous batching, with or without shared prefixes
sampling     the choice of the next token
trial/       whether what is faster gives a model's own numbers, tried before it is relied on
planner      how a model's requests are computed, and the size of passes and of the cached prefix
limits       the size of batches, and what happens when memory runs out
"""
