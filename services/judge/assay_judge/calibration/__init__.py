"""How far a judge can be trusted: measured on examples that people have labelled."""
