"""Transfer of weights from a trainer's memory to an engine's memory, for use on both sides."""
