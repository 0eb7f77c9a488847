"""Engines, behind common protocols."""
