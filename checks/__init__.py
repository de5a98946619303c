"""What is checked: one file per rule, a folder per area, nothing else."""
