"""Formulas in LaTeX: read, bounded in size, and compared."""
