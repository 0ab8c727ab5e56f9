"""The language server: knows LSP and composes model runtime and store."""
