"""Request formats of other sandboxes."""
