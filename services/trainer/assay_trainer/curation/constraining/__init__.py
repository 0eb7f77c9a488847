"""`assay data constrain`: instructions with constraints that a program checks."""
