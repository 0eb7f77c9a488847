"""Gates: the numbers of a stage, bounds for them, and proof that the stage changed something."""
