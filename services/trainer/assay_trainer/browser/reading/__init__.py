"""A run's groups and samples through an index, at 100,000 samples as at ten."""
