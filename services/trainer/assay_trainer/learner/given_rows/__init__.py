"""Training on rows that are given, not sampled: supervised fine-tuning."""
