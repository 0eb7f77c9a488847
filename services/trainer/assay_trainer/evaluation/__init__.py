"""Evaluation of a policy on held-out tasks."""
