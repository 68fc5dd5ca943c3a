"""The requests of Multiform and of lm-eval 0.4.13, task by task, byte for byte.

python -m tools.parity --help   says what can be compared
found     the tasks of lm-eval whose rows the mirror has     cached   lm-eval's requests, kept on disk
theirs    the requests that lm-eval makes                    compare  where they differ, and why
ours      the requests that Multiform makes                  library  the bundled tasks in lm-eval's form
"""
