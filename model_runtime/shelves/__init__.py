"""Options: a folder each, entered by a row of a table, and named nowhere else."""
