"""The values of a batch that travel between the driver and the workers, mostly in files."""
