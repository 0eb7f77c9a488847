"""Preferences from the stored samples of evaluations, and checks of the labels of given ones."""
