"""All services on one machine: `assay up`."""
