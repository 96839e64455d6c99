"""Why an attempt failed, what to do about it, and whether another one may help."""
