"""What every HTTP service stands on."""
