"""What the fleet remembers of bulk jobs, in a KV bucket: which there are, how far they are, and who does what."""
