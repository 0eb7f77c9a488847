"""State shared by the replicas of a service that asks models: limits, costs, cached replies."""
