"""The policy behind one API: generation, and weights that change under it."""
