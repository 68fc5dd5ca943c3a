"""Documents made up from what a task's own templates and functions read.

shapes     what is known about a value, and a value that fits
templates  what Jinja templates read              code   what Python functions read
documents  the document of a task, and a prompt; rows written by hand

python -m tools.parity.made   counts all tasks of lm-eval
"""
