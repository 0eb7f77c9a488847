"""Benches of a sandbox service: load, overload, soak, attacks and fuzzing."""
