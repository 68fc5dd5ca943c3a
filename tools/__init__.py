"""Tools for the developers: parity with lm-eval, the zoo of architectures, benchmarks and scripts."""
