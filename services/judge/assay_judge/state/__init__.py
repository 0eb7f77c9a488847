"""What the replicas of a judge share: limits, costs and cached verdicts."""
