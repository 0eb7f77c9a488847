"""Search: a Monte-Carlo tree search over workflows, as in AFlow (arXiv 2410.10762)."""
