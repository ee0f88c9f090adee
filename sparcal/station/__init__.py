"""The things with a memory: stations, lots, and what judging leaves behind."""
