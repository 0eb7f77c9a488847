"""A checkpoint, and the proof that an engine holds it."""
