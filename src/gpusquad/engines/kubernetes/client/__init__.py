"""Access to the API server: requests, watches, leases."""
