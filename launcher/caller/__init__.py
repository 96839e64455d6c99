"""How `launch` was called: the working directory, the command, its standard output, and files of its user alone."""
