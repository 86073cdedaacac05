"""What workers run: reading sources, matching a batch in a partition, writing its state."""
