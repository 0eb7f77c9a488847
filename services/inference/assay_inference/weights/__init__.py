"""Checkpoints, uploads of weights, and checks of an engine's weights against their source."""
