"""Rules of the area `load`: what a dry load says, as findings."""
