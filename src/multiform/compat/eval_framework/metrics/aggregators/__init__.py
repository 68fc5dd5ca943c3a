"""How several attempts become one value."""
