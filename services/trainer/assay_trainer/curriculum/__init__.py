"""The order of training tasks: shuffled epochs, or the stages of a curriculum."""
