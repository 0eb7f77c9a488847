"""User-defined rewards: a Python function in a separate process, or a URL."""
