"""Static repair: it finds names that may be unset on some path, and edits the source."""
