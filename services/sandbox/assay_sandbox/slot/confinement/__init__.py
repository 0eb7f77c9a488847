"""Isolation of programs from the host: kernel calls, filters, control groups. Standard library."""
