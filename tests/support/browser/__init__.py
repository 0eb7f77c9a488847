"""Runs with stored groups, for tests and measurements of the run browser."""
