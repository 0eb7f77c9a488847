"""Linear and integer models: reading, solving, and proofs of infeasibility."""
