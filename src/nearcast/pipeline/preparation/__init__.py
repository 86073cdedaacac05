"""From raw files to a prepared store: rows in interchange columns, vocabulary, plan, partitions."""
