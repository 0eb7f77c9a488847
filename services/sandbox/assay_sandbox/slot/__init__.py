"""The processes around and inside the slots. Standard library only: our packages are not there."""
