"""Chat messages and their formatting as one text, provided by Multiform."""
