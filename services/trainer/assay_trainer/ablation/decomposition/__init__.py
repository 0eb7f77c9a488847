"""What an arm changes before it is compared: its gradients and samples beside the previous arm's."""
