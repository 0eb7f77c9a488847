"""Training on rows that are given, not sampled: SFT and DPO."""
