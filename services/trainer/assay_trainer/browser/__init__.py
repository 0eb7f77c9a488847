"""The run browser: every run, step, group and sample as pages, texts and one HTML file."""
