"""The inference service: generation from a policy with changing weights."""
