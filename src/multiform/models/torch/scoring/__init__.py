"""Log-likelihoods of continuations on a causal language model.

score          by plan where the model can share prefixes, from copied states, or in batches
by_plan        forward passes of a prefix-tree plan
by_state       batches that go on from copies of the state after a common prefix
by_batch       padded batches of whole sequences
loglikelihood  sums of token log-probabilities
"""
