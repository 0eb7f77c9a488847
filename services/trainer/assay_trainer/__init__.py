"""The trainer: rollouts, the learner, evaluation, and runs as a service."""
