"""The cluster file: YAML to values, each mistake with its line and column."""
