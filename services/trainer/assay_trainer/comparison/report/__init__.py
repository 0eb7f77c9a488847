"""The report of a comparison: terminal, Markdown, JSON, summary, and a page with pictures."""
