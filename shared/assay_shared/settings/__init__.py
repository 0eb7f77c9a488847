"""Configuration: environment variables, run files, keys and secrets."""
