"""Judges: models behind endpoints and the reference; parsing of verdicts, qualification."""
