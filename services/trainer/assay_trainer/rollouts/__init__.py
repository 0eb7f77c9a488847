"""Groups of answers: sent out, generated, scored and stored once. Runs without torch."""
