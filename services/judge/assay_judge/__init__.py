"""The judge service: verdicts on answers, from a chain of judges with fallbacks."""
