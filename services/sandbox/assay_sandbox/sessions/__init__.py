"""Sessions: interpreters kept alive between requests."""
