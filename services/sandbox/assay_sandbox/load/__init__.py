"""Load, attacks and fuzzing against a sandbox service."""
