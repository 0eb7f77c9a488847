"""Leaks: tasks of a test set found in training data."""
