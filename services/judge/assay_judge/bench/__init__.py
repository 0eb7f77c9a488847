"""Benchmarks of a judge chain on published sets of answer pairs with gold labels."""
