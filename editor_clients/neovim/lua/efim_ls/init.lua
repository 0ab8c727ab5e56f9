--- Suggestions of efim-ls: what mappings, status lines and scripts call.
local api = vim.api
local acceptance = require("efim_ls.acceptance")
local lsp = require("efim_ls.lsp")
local next_edit = require("efim_ls.next_edit")
local parts = require("efim_ls.parts")
local server = require("efim_ls.server")
local suggestions = require("efim_ls.suggestions")
local M = {}

---@return integer
local function here()
  return api.nvim_get_current_buf()
end

local function way()
  return require("efim_ls.attach").way
end

---@class efim_ls.Options
---@field cmd string[]? how the server is started; default: { "efim-ls" }
---@field filetypes string[]? default: all; the server leaves some out by default
---@field settings table? settings of the server
---@field keys table<string, string>? by function: { accept = "<Tab>" }
---@field names "auto" | "own"? whether the buffer's other servers are asked for names; default: "auto"

--- Start the server and show suggestions. Only keys named in `keys` are mapped.
---@param options efim_ls.Options?
function M.setup(options)
  options = options or {}
  vim.cmd.runtime("plugin/efim_ls.lua") -- for plugin managers that add this folder late
  require("efim_ls.keys").map(options.keys or {})
  require("efim_ls.names").ask_others = options.names ~= "own"
  server.enable({ cmd = options.cmd, filetypes = options.filetypes, init_options = options.settings })
  way().enable()
end

--- Accept the suggestion. Like all functions that accept or select, return false if nothing is shown, so that a
--- mapping can do something else.
---@return boolean
function M.accept()
  return acceptance.accept(here(), parts.all)
end

---@return boolean
function M.accept_word()
  return acceptance.accept(here(), parts.word)
end

---@return boolean
function M.accept_line()
  return acceptance.accept(here(), parts.line)
end

--- Show the next alternative; `trigger` asks for several.
---@return boolean
function M.next()
  return way().select(here(), 1)
end

---@return boolean
function M.prev()
  return way().select(here(), -1)
end

--- Ask for suggestions with alternatives at the cursor, in insert mode.
---@return boolean
function M.trigger()
  if not lsp.client(here()) or not vim.startswith(api.nvim_get_mode().mode, "i") then
    return false
  end
  suggestions.ask(here(), lsp.INVOKED)
  return true
end

--- Hide the suggestion until the next key.
---@return boolean
function M.dismiss()
  return suggestions.dismiss(here())
end

--- Go to the next edit that is shown, or make it where the cursor is on its line.
---@return boolean
function M.next_edit()
  return next_edit.jump_or_accept()
end

--- Never offer the next edit again that is shown.
---@return boolean
function M.refuse_edit()
  return next_edit.refuse()
end

--- Explain the suggestion at the cursor in a window below: |:Efim-explain|.
---@return boolean true, so that a key does nothing else
function M.explain()
  require("efim_ls.commands").run("explain")
  return true
end

local SNOOZE = 5 -- minutes
local waking ---@type uv.uv_timer_t? ends a snooze

---@param enabled boolean
local function switch(enabled)
  if waking and not waking:is_closing() then
    waking:close()
  end
  waking = nil
  server.enabled = enabled
  if enabled then
    way().enable()
  end
  for _, client in ipairs(lsp.clients()) do
    server.tell_choices(client)
  end
  suggestions.forget(here())
  next_edit.forget()
end

--- Turn suggestions on, in all buffers.
function M.enable()
  switch(true)
end

--- Turn suggestions off, in all buffers; the server then computes nothing.
function M.disable()
  switch(false)
end

function M.toggle()
  switch(not server.enabled)
end

--- Turn suggestions off for a while, five minutes if it is not said how many.
---@param minutes number?
function M.snooze(minutes)
  switch(false)
  local timer
  timer = vim.defer_fn(function()
    if waking == timer then -- a snooze that began meanwhile goes on
      M.enable()
    end
  end, (minutes or SNOOZE) * 60000)
  waking = timer
end

--- Choose how sure the model must be of a suggestion before it is shown, until Neovim ends: the setting `suggestions`.
---@param level "more" | "balanced" | "sure" | "on request" | number
function M.suggest(level)
  server.choose({ suggestions = level })
  suggestions.forget(here())
end

--- Return a short text for a status line: "efim ready 1.2 ms".
---@return string
function M.status()
  return require("efim_ls.status").text()
end

--- Return the last status of a buffer.
---@param buf integer? default: the current one
---@return efim_ls.Status?
function M.status_info(buf)
  return require("efim_ls.status").info(buf)
end

return M
