"""Exchange of values between two processes without mutual trust. Standard library only."""
