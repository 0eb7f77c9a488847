"""What a policy can do, measured on tasks that it was not trained on."""
