"""The losses, a file each: see `table.LOSSES`."""
