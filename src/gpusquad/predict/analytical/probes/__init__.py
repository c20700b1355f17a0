"""The microbenchmarks of a measured card, one file per kind of op. Each returns rows of shapes and microseconds."""
