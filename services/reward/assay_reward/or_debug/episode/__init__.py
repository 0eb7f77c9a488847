"""Episodes of repair: actions, feedback and rewards."""
