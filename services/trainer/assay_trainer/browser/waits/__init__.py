"""Waits of a run: for whom, since when, and the change to make."""
