"""One stored sample with everything that led to its reward."""
