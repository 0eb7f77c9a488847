"""Clients of models at OpenAI-compatible endpoints, and the handling of their failures."""
