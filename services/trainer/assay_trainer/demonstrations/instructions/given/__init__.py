"""What the command is given: its file, a constitution, and seeds."""
