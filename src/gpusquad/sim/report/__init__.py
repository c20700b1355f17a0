"""Output of a simulation: tables in the terminal, one HTML file, rows of jobs."""
