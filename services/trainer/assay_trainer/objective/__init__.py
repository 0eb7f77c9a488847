"""The menu of GRPO's objective: losses, corrections, averages, estimators of the KL.

Each loss and each correction is a file with its paper and its equation, and a row of a table. Run
files are checked against the tables, so nothing here imports torch when it is loaded.

Shapes: L sampled tokens of a pack, one sequence after another; S sequences. Logarithms are natural.
"""
