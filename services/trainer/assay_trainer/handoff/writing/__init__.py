"""The files of the output folder."""
