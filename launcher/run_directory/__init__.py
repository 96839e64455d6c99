"""A run's own directory: every path in it, who has it, and how its files are written."""
