"""The language server: speaks LSP and combines the model runtime with the KV store."""
