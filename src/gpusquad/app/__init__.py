"""Configuration and wiring of the service. Only the command line imports this package."""
