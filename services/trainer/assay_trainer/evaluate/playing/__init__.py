"""Playing the tasks of a set: what is left of them, played and turned into records."""
