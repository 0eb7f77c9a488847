"""Linear and integer models: read, solved, and proven infeasible."""
