"""The microbenchmarks behind a measured card, one file a kind of op. Each gives rows of shapes and microseconds."""
