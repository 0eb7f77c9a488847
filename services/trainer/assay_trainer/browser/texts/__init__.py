"""Runs and samples as text in a terminal, and as JSON."""
