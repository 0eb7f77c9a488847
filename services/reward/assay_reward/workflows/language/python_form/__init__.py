"""The Python form of workflows: `async def workflow(problem)`, read by `ast` and never run."""
