"""Weights from a trainer's memory into an engine's: what both sides of a transfer share."""
