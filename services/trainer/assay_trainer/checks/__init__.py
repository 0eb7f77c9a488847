"""Checks before training: rewards, baselines, leaks."""
