"""Prompts to a model, and its replies, each stored once."""
