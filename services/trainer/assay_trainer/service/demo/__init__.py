"""The demo: a run with all of its services, a page that kills them, and a chat with the policy."""
