"""Values between two processes that do not trust each other. Standard library only."""
