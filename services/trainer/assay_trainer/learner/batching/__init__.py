"""What the batcher keeps of the groups that it has seen."""
