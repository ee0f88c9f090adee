"""The JSON API, one module per thing."""
