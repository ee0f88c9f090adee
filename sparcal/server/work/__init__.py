"""What a web station does in the background: the worker, its handlers, the watched folder."""
