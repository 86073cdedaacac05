"""What benchmarks run on: workloads drawn from a seed or from data files."""
