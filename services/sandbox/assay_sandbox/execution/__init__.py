"""The server's side of slots: take one, run a program in it, read what comes of it."""
