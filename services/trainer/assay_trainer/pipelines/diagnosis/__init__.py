"""Diagnoses: advice from the log of a failed stage, or from the numbers of a poor one."""
