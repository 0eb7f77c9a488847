"""`assay try`: given answers, scored by real services, next to the rewards of usual practice."""
