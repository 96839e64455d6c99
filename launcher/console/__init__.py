"""What a person sees of a run: whole lines, each with its worker's name."""
