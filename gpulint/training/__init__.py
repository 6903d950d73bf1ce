"""What runs in a training step, an epoch, once or never; loaders and collectives."""
