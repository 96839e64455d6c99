"""All hosts of a run: how each is reached, what its agent is asked, and what the agent reports."""
