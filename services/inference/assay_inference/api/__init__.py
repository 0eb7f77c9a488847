"""The HTTP routes of inference."""
