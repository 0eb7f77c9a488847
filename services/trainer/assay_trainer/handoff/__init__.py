"""Hand-off: a checkpoint written as a Hugging Face folder, with checks and a manifest."""
