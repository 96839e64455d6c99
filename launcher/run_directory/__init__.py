"""A run's directory: every path in it, which launcher holds it, and how its files are written."""
