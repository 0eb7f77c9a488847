"""Conversion of texts and conversations to token ids."""
