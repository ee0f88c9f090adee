"""Files that are whole or absent: atomic writes, hashes, JSON records, locks. Nothing here loads torch."""
