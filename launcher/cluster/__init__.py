"""What a cluster is: hosts, tasks, cluster spec, and the plan of an attempt."""
