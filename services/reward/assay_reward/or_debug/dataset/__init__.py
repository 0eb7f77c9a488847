"""Benchmarks and training tasks of broken models."""
