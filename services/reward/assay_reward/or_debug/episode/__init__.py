"""One episode of repair: actions, feedback and rewards."""
