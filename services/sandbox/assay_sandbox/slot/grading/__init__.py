"""Judging call and assertion cases between two processes. Standard library only."""
