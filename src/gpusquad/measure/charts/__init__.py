"""Charts of a measurement series: an HTML page and a PNG image."""
