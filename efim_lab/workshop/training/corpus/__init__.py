"""The training corpus: permissively licensed files, filtered and deduplicated."""
