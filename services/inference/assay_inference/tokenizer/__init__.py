"""Texts and conversations as token ids."""
