"""Run-time predictions: predictors, their training and their accuracy."""
