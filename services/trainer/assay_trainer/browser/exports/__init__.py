"""A run's samples as files for other programs: tables, and logs of Inspect."""
