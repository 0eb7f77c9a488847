"""Repair of infeasible linear and integer models: generation, solving, episodes, evaluation."""
