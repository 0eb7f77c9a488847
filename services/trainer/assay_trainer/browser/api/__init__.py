"""The browser's pages over HTTP."""
