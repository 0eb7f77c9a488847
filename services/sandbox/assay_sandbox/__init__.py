"""Sandbox service: runs untrusted programs and judges them by test cases."""
