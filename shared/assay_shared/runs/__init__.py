"""Run folders and their lock, JSON lines, the Celery queue, and dead letters."""
