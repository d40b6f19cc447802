"""Places for vectors that bulk jobs can write to, one kind a file."""
