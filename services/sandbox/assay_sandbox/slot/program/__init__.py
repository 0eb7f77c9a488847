"""Code inside a program's own process, and the program's end. Standard library only."""
