"""Fine-tuning of existing models."""
