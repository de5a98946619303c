"""Small checkpoints, healthy and broken, through both tiers: `make bench-truth`."""
