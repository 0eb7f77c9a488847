"""Instructions whose following can be checked: IFEval's kinds, by its names (arXiv 2311.07911)."""
