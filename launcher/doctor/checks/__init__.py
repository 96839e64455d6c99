"""What the answers mean, by topic: functions from an examination to findings. Pure."""
