"""Feedback on a program for the policy: the tests that are public, and what is told of them."""
