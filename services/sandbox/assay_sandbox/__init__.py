"""Runs untrusted programs, and judges them by test cases."""
