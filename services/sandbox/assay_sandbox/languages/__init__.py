"""Languages of programs: the commands and tools of each."""
