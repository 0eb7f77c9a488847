"""Answers to multiple-choice questions."""
