"""What a program and all that it started use. Standard library only."""
