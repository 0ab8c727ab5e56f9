--- The user's mappings: a key does what it did before if there is nothing to accept.
local M = {}

M.NAMES = { "accept", "accept_word", "accept_line", "next", "prev", "trigger", "dismiss", "explain" }
local MODES = { explain = { "i", "n" } } -- all others: insert mode
M.mapped = {} ---@type table<string, string>

--- Return what a key did before: its mapping, or what Neovim does with it.
---@param key string
---@param before table from |maparg()|
---@return string? keys to type
local function own_meaning(key, before)
  if before.callback then
    local keys = before.callback()
    return before.expr == 1 and keys or ""
  elseif before.expr == 1 then
    return vim.api.nvim_eval(before.rhs)
  end
  return before.rhs or key
end

---@param mode string
---@param name string of a function
---@param key string
local function map(mode, name, key)
  local before = vim.fn.maparg(key, mode, false, true)
  vim.keymap.set(mode, key, function()
    return require("efim_ls")[name]() and "" or own_meaning(key, before)
  end, { expr = true, desc = "efim-ls: " .. name:gsub("_", " ") })
end

---@param keys table<string, string> by function
function M.map(keys)
  for name, key in pairs(keys) do
    if not vim.list_contains(M.NAMES, name) then
      error(("efim-ls: there is no key %q; there are %s"):format(name, table.concat(M.NAMES, ", ")), 0)
    end
    M.mapped[name] = key
    for _, mode in ipairs(MODES[name] or { "i" }) do
      map(mode, name, key)
    end
  end
end

return M
