"""Verdicts on answers, from a chain of judges that may fail."""
