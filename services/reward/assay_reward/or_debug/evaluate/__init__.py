"""Policies measured on a benchmark of broken models."""
