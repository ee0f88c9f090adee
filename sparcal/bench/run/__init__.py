"""Running units: features from a cache, scores, metrics, one row each, on one machine or a cluster."""
