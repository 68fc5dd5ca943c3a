"""The requests of Multiform and of lm-eval 0.4.13, task by task, byte for byte.

python -m tools.parity --help   says what can be compared
found     the tasks of lm-eval whose rows the mirror has     chat     the bundled model's chat template
theirs    the requests that lm-eval makes                    cached   the same, kept on disk
ours      the requests that Multiform makes                  compare  where they differ, and why
"""
