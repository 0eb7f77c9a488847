"""Tasks of a test set that stand in training data, and how sure that is."""
