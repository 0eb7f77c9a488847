"""Resource use of a program and its descendants. Standard library only."""
