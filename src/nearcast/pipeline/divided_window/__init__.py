"""A window divided over message partitions: its parts, and the view a home has of them."""
