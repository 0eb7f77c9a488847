"""What answers a task: a served policy, a model of a server, or stored answers."""
