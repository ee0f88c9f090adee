"""What is checked before a release: the changelog, and the wheel alone in an empty environment."""
