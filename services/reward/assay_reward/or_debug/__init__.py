"""Infeasible linear and integer models, and what it takes to make, solve and explain them."""
