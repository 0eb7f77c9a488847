"""Texts of others, made safe to parse and to show."""
