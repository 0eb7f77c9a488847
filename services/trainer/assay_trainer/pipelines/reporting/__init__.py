"""Reports of a pipeline: tables for the terminal, a page with pictures, and a register."""
