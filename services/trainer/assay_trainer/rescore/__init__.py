"""A finished run, scored again."""
