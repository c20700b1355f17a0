"""What things are: jobs, requests, cards, nodes, placements, decisions, reasons. Frozen data."""
