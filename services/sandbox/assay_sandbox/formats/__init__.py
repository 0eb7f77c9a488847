"""Request formats of other sandboxes, served over this sandbox."""
