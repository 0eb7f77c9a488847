"""Broken models made to measure: four kinds of mistakes, three difficulties, every one checked."""
