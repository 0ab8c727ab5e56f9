---@brief
---
--- https://efim-ls.example
---
--- `efim-ls` completes code as you type, with a small model in its own process: no GPU, no account, and nothing leaves
--- the machine. It serves documents of every language.
---
--- Suggestions are inline completions, which Neovim 0.12 and newer shows as ghost text once you enable them:
---
--- ```lua
--- vim.lsp.enable('efim_ls')
--- vim.lsp.inline_completion.enable()
--- vim.keymap.set('i', '<Tab>', function()
---   return vim.lsp.inline_completion.get() and '' or '<Tab>'
--- end, { expr = true })
--- ```
---
--- Settings go into `init_options`; all of them are in the server's `docs/settings.md`:
---
--- ```lua
--- vim.lsp.config('efim_ls', { init_options = { suggestions = 'sure' } })
--- ```

---@type vim.lsp.Config
return {
  cmd = { 'efim-ls' },
  root_markers = { '.git' },
}
