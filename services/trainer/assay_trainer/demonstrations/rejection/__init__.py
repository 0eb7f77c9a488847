"""Rejection sampling: the accepted answers of stored evaluations as demonstrations."""
