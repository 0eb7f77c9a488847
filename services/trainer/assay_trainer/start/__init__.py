"""A first run file and its environment, sized for the GPUs of a machine: `assay init`."""
