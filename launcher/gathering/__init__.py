"""Files of other hosts, brought into the run directory: what the chief makes, and the logs of all workers."""
