"""Checkpoints, and the differences between two of them."""
