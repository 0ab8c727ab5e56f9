"""The parts of a training run other than its steps: plan, clock, measurements, and the snapshot to commit."""
