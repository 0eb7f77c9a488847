"""New instructions from seeds and a model, with answers that were revised, filtered and scored."""
