"""Analysis of a measurement series, with tests of significance."""
