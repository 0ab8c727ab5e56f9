"""What is learnt from: permissively licensed files, filtered and without duplicates."""
