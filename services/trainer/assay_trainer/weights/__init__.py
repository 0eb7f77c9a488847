"""New weights on their way to inference."""
