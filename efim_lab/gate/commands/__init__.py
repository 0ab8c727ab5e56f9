"""The laboratory's command line, a file for each verb that has no command line of its own."""
