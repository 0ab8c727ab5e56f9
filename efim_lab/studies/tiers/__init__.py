"""What a team's shared cache saves: first completions on a second machine, over links of several kinds."""
