"""The trainer service with pages of pipelines."""
