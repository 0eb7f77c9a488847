"""Request formats of other libraries."""
