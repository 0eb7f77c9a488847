"""What runs inside a program's own process, and how it ends. Standard library only."""
