"""Faults of a run by its numbers: a rule for each, with the fix."""
