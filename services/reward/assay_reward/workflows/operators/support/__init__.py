"""What operators share: their interface, prompts, votes and faults."""
