"""The demo's page over HTTP, for this machine alone."""
