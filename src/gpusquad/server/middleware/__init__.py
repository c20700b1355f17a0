"""What every request passes on its way in, outermost first: headers, failures, host, entrance, body."""
