"""Parsing and showing texts from outside safely."""
