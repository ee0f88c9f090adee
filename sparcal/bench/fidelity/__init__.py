"""How close each host is to the paper and to its authors: facts with sources, accounts, and the page made of both."""
