"""Packages that also run where nothing else of Assay is: in vLLM's own environment.

This folder is put on that environment's path, so what lies here is imported there by its own name
(`weight_transfer.fingerprint`), and here by its whole one. It may import the standard library,
torch, and its own package relatively.
"""
