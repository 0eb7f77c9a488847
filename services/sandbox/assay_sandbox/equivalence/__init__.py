"""Equivalence proof: runs a corpus of programs in slots and under plain CPython, and compares."""
