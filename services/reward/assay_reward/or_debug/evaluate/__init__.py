"""Evaluation of policies on a benchmark of broken models."""
