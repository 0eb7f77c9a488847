"""An engine that is a server in a process of its own."""
