"""Execution: a workflow's tree is interpreted within budgets, and each run leaves a trace."""
