"""What the server knows of each language: one record a language, one file for each that it knows well."""
