"""Stored evaluations."""
