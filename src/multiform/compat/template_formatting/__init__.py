"""Messages and how they become one text, answered by Multiform."""
