"""The text form of workflows: one line a step, blocks that close with `end`."""
