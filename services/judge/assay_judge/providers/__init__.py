"""Judging models, and the handling of their failures."""
