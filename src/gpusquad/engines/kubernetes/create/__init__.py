"""Creates cluster objects for jobs that were submitted to the service. From then on they are handled like any other
pods."""
