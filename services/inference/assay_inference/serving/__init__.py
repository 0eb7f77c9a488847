"""The layer between requests and the engine: admission, and the served policy."""
