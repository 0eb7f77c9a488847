"""Completions for a comparison with evalplus, and its verdicts."""
