"""The models that judge, and what happens when one fails."""
