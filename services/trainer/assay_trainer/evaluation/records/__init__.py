"""Stored evaluations: their protocol, the record of each sample, and the folder that holds them."""
