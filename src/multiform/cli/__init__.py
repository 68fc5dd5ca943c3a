"""The command line: sub-commands, one module for those of a kind, with imports inside the functions that need them."""
