"""The checks of a hand-off, each with its evidence."""
