"""Everything that turns an answer into a reward."""
