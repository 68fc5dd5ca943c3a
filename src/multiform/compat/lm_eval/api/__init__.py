"""The base classes of lm-eval: tasks, models, metrics, filters, samplers and their registries."""
