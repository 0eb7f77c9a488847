"""Interpreters that stay between requests."""
