"""The workflow language: one tree, a text form, a Python form, a table of operators, a checker."""
