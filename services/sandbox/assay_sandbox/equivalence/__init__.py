"""The proof that a slot treats a program as plain CPython does: a corpus that is run both ways."""
