"""Bodies of requests and responses in JSON: checked, bounded, and large ones off the event loop."""
