"""Comparison: fixed, searched and learned workflows on the same tasks, in one table."""
