"""What a judge is asked, form by form, and the prompts that ask it."""
