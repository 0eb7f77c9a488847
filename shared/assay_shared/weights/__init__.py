"""Checkpoints, and differences between two checkpoints."""
