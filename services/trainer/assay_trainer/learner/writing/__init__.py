"""Checkpoints written while training continues."""
