"""Rewards of the user's own: a Python function in a process of its own, or a URL."""
