"""Verification of a base model: which tokens its engine reads, and how it behaves."""
