"""Packages for use both in Assay and in vLLM's own environment, without the rest of Assay.

vLLM's environment has this folder on its path, and imports a package by its short name
(`weight_transfer.fingerprint`); Assay imports it by its full name. A package here may import only
the standard library, torch, and itself by relative imports.
"""
