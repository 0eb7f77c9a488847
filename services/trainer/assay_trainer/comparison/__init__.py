"""`assay compare`: evaluations against each other, with tests, verdicts, expectations and rules."""
