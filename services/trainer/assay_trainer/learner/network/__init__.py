"""The trained network: how it is made or loaded, computes on packs, and is sharded over ranks."""
