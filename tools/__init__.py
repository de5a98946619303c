"""Programs for those who work on quantgate; none of it is installed."""
