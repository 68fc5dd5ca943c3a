"""Files in which scripts keep what they have made."""
