"""One run: from what was asked for to how it ended, attempt after attempt."""
