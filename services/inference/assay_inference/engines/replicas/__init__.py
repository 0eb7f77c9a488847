"""Several inference services behind one address."""
