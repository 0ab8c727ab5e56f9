"""The laboratory, which the server never imports: training, evaluation, replay and published experiments."""
