"""A window whose messages are divided over parts: the parts, and the view a partition of subscriptions has of them."""
