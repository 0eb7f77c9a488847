"""Operators: what a workflow can call. Each is a file here, with a row in `table`."""
