"""What the answers mean, by theme: from an examination to findings. Pure."""
