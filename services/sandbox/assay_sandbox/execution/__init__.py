"""The server's side of slots: takes a slot, runs a program in it and reads the result."""
