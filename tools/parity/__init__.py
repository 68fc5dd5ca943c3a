"""The requests of Multiform and of lm-eval 0.4.13, task by task, byte for byte.

python -m tools.parity --help   says what can be compared
found     lm-eval's tasks whose rows the mirror has, and their requests on disk     theirs   what lm-eval makes
compare   where requests differ, and why                                            ours     what Multiform makes
library   the bundled tasks in lm-eval's form
"""
