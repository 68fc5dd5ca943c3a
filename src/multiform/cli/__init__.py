"""The command line: one module for each sub-command, which imports what it needs when it runs."""
