"""The torch engine: forward passes, scoring and decoding on a language model, however it was loaded.

engine             scores and generates requests, in the way that the planner chose
planner            how a model's requests are computed, the size of passes, and the records of trials
plan, state_plan   which tokens each forward pass computes, from the prefix tree of all sequences (pure, without torch)
forward            forward passes, plain and of a plan, and logits at chosen positions
attention          attention in which every token sees its own prefix only
cache              keys, values and states of past tokens, and prefixes that are kept
scoring            log-likelihoods by plan, or in batches, which may go on from copied states
decode_batch       batches of sequences being decoded, with or without shared prefixes
transformers_loop  one sequence at a time, by the decoding loop of transformers
sampling           sequences being decoded, and the choice of their next tokens
seq2seq            encoder-decoder models
structure          what a model's class and configuration say about it
trial              whether what is faster gives a model's own numbers, tried before it is relied on
device             the device of a model, its memory, the size of batches, and matrix products by oneDNN
"""
