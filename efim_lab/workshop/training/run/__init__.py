"""What a run of training is made of besides its steps: plan, clock, measurements, and the snapshot to commit."""
