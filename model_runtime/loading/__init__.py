"""From a folder to a model that is ready to run on this machine."""
