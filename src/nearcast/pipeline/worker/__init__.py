"""The tasks of workers: read a source, match a batch in a partition, write its state."""
