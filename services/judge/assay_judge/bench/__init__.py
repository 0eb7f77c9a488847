"""A judge chain on published sets of pairs whose better answer is known."""
