"""All services on a single machine: `assay up`."""
