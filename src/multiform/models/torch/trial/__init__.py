"""Trials: whether what the engine does to be faster gives a model's own numbers, tried before it is relied on.

structure   what a model's class and configuration say before it is tried
sequences   the token sequences of a trial
scoring     log-likelihoods by plan and in batches, against the plain forward pass of each sequence
exact       half precision converted to float32 for the time of a trial
decoding    decoding in batches, against `generate` or the plain forward pass of each sequence
records     verdicts that are kept, so that the next run does not try again
"""
