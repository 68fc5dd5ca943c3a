"""Encoder-decoder models of transformers."""
