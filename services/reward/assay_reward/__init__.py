"""The reward service: rubrics, verifiers and environments."""
