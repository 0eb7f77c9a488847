"""Held-out values of all arms and seeds, their digests, and verdicts."""
