"""Checkable instructions: IFEval's kinds, by its names (arXiv 2311.07911)."""
