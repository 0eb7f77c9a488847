"""Processes, workers and asyncio."""
