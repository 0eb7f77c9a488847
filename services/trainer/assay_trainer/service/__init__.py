"""Runs over HTTP: start, follow, stop, back up."""
