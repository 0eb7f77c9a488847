"""Grading: judges a program by its test cases."""
