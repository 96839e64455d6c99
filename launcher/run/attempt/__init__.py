"""One attempt: a gang of workers, from its start to the moment when nothing of it is left."""
