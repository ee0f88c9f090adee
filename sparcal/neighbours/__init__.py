"""Exact nearest neighbours and the greedy coreset."""
