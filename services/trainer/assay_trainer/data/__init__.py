"""Tasks: opened, split by role, and written as token ids."""
