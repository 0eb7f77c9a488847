"""The languages that programs may be written in."""
