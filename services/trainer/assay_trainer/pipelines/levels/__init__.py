"""Levels of success: conditions on the results of several stages."""
