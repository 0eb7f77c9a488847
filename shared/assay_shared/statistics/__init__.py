"""Estimates with intervals: shares, means, and paired differences."""
