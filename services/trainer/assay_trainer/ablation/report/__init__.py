"""The report of an ablation: Markdown, JSON, and one page with pictures."""
