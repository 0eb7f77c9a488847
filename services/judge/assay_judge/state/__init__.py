"""State shared by a judge's replicas: limits, costs and cached replies."""
