"""Who called `launch`: the directory, the words, the standard output, and the files that are the caller's alone."""
