"""The zoo: every architecture of the installed transformers, held against its own forward pass and `generate`."""
