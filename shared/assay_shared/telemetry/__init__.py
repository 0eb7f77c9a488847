"""Ids, logs, traces and metrics."""
