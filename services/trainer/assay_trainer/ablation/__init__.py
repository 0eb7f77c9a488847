"""Ablations: arms from one start, their gradients compared, and verdicts over seeds and tasks."""
