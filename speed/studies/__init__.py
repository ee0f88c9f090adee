"""Studies of how well something holds, not how fast it is: minutes to hours, each printing the tables of a docs page."""
