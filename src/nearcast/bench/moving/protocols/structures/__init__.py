"""What Elaps is made of: safe regions of grid cells, and quadtrees of messages. The kernels of the benchmarks."""
