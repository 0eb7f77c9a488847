"""Code for vLLM's own processes, in vLLM's own environment, without Assay."""
