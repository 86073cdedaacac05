"""DataFrames of messages against DataFrames of subscriptions, in batch."""
