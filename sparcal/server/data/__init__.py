"""What a web station remembers: the database, image files, drafts, lots, scores, the queue."""
