"""Reading values from texts: numbers, units, sets, matrices, dates."""
