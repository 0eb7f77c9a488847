"""Calibration of judges on examples labelled by people."""
