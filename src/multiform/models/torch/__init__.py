"""The torch engine: forward passes, scoring and decoding on a language model, however it was loaded.

engine             scores and generates requests, in the way that the planner chose
planner            how a model's requests are computed, and the size of passes and of the cached prefix
plan, state_plan   which tokens each forward pass computes, from the prefix tree of all sequences (pure, without torch)
sequences          the token sequences that are scored and decoded (without torch)
forward            runs the forward passes of a plan
attention          attention in which every token sees its own prefix only
cache              keys, values and states of past tokens
logits             logits of the plain forward pass and at chosen positions
scoring            log-likelihoods by plan, or in batches
state_scoring      log-likelihoods from copies of the state after a common prefix
decode_batch       batches of sequences being decoded, with or without shared prefixes
transformers_loop  one sequence at a time, by the decoding loop of transformers
sampling           the choice of the next token
seq2seq            encoder-decoder models
structure          what a model's class and configuration say about it
trial              whether what is faster gives a model's own numbers, tried before it is relied on
trial_setup        the sequences of trials, and the records of their verdicts
batching           the size of batches, and what happens when memory runs out
device             the device of a model, and its memory
"""
