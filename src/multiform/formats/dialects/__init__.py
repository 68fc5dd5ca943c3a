"""The other dialects of formats: `template:` and the stylers of Python tasks, both translated to `FormatConfig`."""
