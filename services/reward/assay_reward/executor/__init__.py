"""The executor: models at OpenAI-compatible endpoints that answer workflows' operator calls."""
