"""What an arm changes: its gradients and samples, compared with the arm before it."""
