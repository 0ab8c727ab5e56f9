"""What a token teaches: networks trained on the same rows, and judged with counts of the text before."""
