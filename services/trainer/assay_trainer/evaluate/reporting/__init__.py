"""What people read of an evaluation: samples by outcome, tables, pages and pictures."""
