"""Checks of answers for the verifiers: JSON, language, patterns, instructions."""
