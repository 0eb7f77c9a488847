"""The corrections, a file each: see `table.CORRECTIONS`."""
