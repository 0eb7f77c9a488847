"""JSON bodies of requests and responses: checked, bounded; large bodies stay off the event loop."""
