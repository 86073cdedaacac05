"""One window for all workers of a host: columns in files that only grow, mapped by whoever searches them."""
