"""What is checked before anything is trained on: rewards, baselines, leaks."""
