"""The policy that is evaluated: where it lies, and who serves it."""
