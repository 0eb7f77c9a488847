"""Ordinary Python, and ordinary slips of the text form, with one meaning in the language."""
