"""What tasks and metrics share."""
