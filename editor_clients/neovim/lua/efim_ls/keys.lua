--- The user's mappings: if there is nothing to accept, a key keeps its earlier mapping.
local M = {}

-- In the order in which they are mapped: of two with one key, the later is asked first.
M.NAMES = {
  "refuse_edit",
  "next_edit",
  "accept",
  "accept_word",
  "accept_line",
  "next",
  "prev",
  "trigger",
  "dismiss",
  "explain",
}
local MODES = { explain = { "i", "n" }, next_edit = { "i", "n" }, refuse_edit = { "n" } } -- all others: insert mode
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
  for name in pairs(keys) do
    if not vim.list_contains(M.NAMES, name) then
      error(("efim-ls: there is no key %q; there are %s"):format(name, table.concat(M.NAMES, ", ")), 0)
    end
  end
  for _, name in ipairs(M.NAMES) do
    M.mapped[name] = keys[name] or M.mapped[name]
    for _, mode in ipairs(keys[name] and (MODES[name] or { "i" }) or {}) do
      map(mode, name, keys[name])
    end
  end
end

return M
