"""Completions of prompts on a causal language model."""
