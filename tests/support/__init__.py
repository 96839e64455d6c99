"""Launches, odd hosts, histories: what several test files share."""
