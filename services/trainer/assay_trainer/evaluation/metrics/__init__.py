"""The numbers of a stored set: estimates with intervals, errors, tokens and costs, by strata."""
