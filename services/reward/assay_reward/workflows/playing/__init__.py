"""Playing: from a policy's reply to a workflow, its run, what the policy reads, and its numbers."""
