"""Multiform and lm-eval 0.4.13 side by side: the same rows, model and threads.

python -m tools.benchmarks --help   says what can be measured
workloads   the tasks and their requests       sides     a side in a process of its own
child       what runs in that process          answering a model of either side, and whether both answer alike
tables      rows of figures, and the docs' tables  phases    where the time to the first forward pass goes
commands, building, scoring, report, scale, workers, vllm, half_precision    the measurements
"""
