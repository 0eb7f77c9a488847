"""`assay data`: the commands of several rooms under one word."""
