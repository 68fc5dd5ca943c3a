"""Log-likelihoods of continuations on a causal language model."""
