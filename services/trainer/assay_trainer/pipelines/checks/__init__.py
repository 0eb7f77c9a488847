"""Checks of stages before the first of them runs: commands, options, policies."""
