"""What an arm changes: its gradients and samples beside those of the arm before it."""
