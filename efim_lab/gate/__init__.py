"""What judges a change of the product: typing, held-out places, replay, next edits, a team of people."""
