"""Encoder-decoder models of transformers.

backend    how they tokenize, and what they share with decoder-only models
scoring    log-likelihoods, with each context encoded once in a batch
generation completions, by the decoding loop of transformers
trial      whether batches give what the model itself gives each sequence alone
"""
