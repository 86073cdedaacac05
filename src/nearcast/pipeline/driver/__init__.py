"""The driver of a stream: runs batches one after the other, from their sources to their manifests."""
