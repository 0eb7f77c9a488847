"""Published sets made into folders of rows: import, duplicates, registration, pages to read."""
