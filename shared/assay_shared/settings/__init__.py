"""What is configured: the environment, run files, keys and secrets."""
