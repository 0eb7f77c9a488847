"""What runs beside and inside the slots. Standard library only: no package of ours is in there."""
