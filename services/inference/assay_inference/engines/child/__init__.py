"""Engines that run as a server in their own process."""
