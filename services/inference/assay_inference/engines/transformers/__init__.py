"""The engine on transformers, in this process."""
