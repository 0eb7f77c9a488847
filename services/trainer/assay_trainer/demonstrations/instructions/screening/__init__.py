"""Which texts of a model are left out, and why."""
