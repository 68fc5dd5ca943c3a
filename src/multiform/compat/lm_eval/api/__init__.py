"""What tasks, models, metrics and filters are made of."""
