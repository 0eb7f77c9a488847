"""Pages of runs, steps, groups and samples: the same templates for the service and for a file."""
