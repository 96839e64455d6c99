"""An agent that finds, ends and removes what runs have left on its host, for `launch leftovers`."""
