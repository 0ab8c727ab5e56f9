"""Where experts and latents lie on several devices: what can be computed and simulated without them."""
