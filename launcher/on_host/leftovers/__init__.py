"""The agent of `launch leftovers`: finds, ends and removes what runs have left on its host."""
