"""What a person sees of a run: whole lines, each prefixed with its worker's name."""
