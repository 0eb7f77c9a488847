"""Parts of an answer that verifiers read."""
