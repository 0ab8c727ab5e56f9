"""The laboratory's command line, a file for each verb without a separate command line."""
