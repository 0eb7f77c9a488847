"""The kinds of values that a text can write: numbers, units, sets, matrices, dates."""
