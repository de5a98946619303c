"""Rules of the area `names`."""
