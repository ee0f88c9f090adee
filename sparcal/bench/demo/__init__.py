"""The demonstration: rendered parts, a shifted lot, each correction side by side."""
