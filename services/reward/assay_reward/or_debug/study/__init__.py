"""A study: evaluations of several policies on the same models, their figures and goals."""
