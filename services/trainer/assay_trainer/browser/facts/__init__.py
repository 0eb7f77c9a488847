"""A run's events as the browser shows them: the sample funnel, curves, the time of a step."""
