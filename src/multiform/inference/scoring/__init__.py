"""Log-likelihoods of continuations on a causal language model.

score          by plan where the model can share prefixes, in batches elsewhere
by_plan        forward passes of a prefix-tree plan
by_batch       padded batches of whole sequences
loglikelihood  sums of token log-probabilities
"""
