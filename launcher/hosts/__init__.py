"""All hosts of a run: how each is reached, what is said to its agent, and what the agent tells."""
