"""How the record of a language is written, and how files mix languages."""
