"""What runs inside vLLM's own processes, in vLLM's own environment: nothing of Assay is there."""
