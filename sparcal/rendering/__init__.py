"""Rendered parts, for the demonstration and for tests."""
