"""Ways from rewards to advantages: a file each, and `learner/advantage.py` has their table."""
