"""Tasks, stylers and their registry."""
