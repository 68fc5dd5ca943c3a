"""Benchmarks: the files beside a task file, or those of the installed package."""
