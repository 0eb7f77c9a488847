"""Published sets of broken models: reading, checks of each claim, import as a benchmark."""
