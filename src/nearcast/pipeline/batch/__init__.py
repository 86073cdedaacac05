"""What a batch consists of: the values that travel between the driver and the workers, in files."""
