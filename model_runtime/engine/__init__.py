"""What runs when: prefill, decoding, drafts, sampling and stops."""
