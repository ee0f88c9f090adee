"""Rows to tables and figures, with the paper's numbers beside ours."""
