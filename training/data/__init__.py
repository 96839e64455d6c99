"""The data that comes with the training program, and how its examples are dealt out to steps and replicas."""
