"""The command line: one module for each sub-command, with imports inside the functions that need them."""
