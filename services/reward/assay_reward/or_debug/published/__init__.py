"""Published sets of broken models: read, checked claim by claim, and written as a benchmark."""
