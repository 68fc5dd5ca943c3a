"""Colours of a terminal."""

RED = "\033[91m"
YELLOW = "\033[93m"
MAGENTA = "\033[1;35;40m"
GREEN = "\033[92m"
RESET = "\033[0m"
