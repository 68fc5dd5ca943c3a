"""Completions of prompts, decoded in continuous batches.

generate      schedules sequences: a finished one leaves the batch and the next takes its place
batch         the batches of models that cannot share prefixes
shared        batches in which sequences share the KV cache of their common prefix
alone         one sequence at a time, by the model's own `generate` and its own cache, or a copy of a prefix's
prefix_group  the KV cache of sequences with one common prefix
processors    sampling and stopping where transformers runs the decoding loop
"""
