"""The form of a record, one record a language, and one file for each language that the server knows well."""
