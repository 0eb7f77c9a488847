"""The forms of judging, and their prompts."""
