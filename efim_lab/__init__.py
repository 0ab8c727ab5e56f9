"""What no keystroke needs: training, evaluation, replay and published experiments."""
