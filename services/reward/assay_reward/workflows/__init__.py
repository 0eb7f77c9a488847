"""Workflows: small programs of operator calls. They are read, checked and repaired, never `exec`ed.

`language/` holds the tree, its two written forms and the checker; `repair/` fixes programs.
"""
