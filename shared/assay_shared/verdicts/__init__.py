"""Verdicts of answers next to the rewards of usual practice: as data, in HTML, in a terminal."""
