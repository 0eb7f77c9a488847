"""Makes demonstrations: new instructions with answers, and accepted answers of evaluations."""
