"""Permission to learn from data: manifests, prompts that are for tests alone, refused sources."""
