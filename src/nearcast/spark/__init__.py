"""The data pipeline on Spark: preparing data, matching in batch, and the stream, with the answers of the hub."""
