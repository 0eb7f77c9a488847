"""Several inference services behind a single address."""
