"""Bridges to other libraries. Nothing else in sparcal imports this package."""
