"""Results in the formats of others: Inspect's logs, Every Eval Ever, OpenTelemetry, the hub's evaluation results."""
