"""Pages of `assay try`, for pictures."""
