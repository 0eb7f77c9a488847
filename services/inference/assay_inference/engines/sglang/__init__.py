"""SGLang as the server of a child engine."""
