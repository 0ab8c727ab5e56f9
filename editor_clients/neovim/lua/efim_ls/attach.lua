--- Sets up each buffer that the server serves: request suggestions while typing, and report where the user is.
local api = vim.api
local insert_end = require("efim_ls.insert_end")
local lsp = require("efim_ls.lsp")
local names = require("efim_ls.names")
local next_edit = require("efim_ls.next_edit")
local status = require("efim_ls.status")
local suggestions = require("efim_ls.suggestions")
local M = {}

M.way = lsp.native and require("efim_ls.native") or require("efim_ls.extmarks")

local ticks = {} ---@type table<integer, integer> changedtick by buffer, when the cursor was last looked at

---@param buf integer
local function typed(buf)
  if M.way.is_enabled(buf) and vim.startswith(api.nvim_get_mode().mode, "i") then
    suggestions.refresh(buf)
    suggestions.ask(buf, lsp.AUTOMATIC)
    names.ask(buf)
  end
end

status.when_ready = function(buf)
  suggestions.forget(buf)
  typed(buf)
end

---@param buf integer
local function moved(buf)
  local client = lsp.client(buf)
  if client then
    local params = { textDocument = lsp.document(buf), position = lsp.position(client) }
    lsp.notify(client, "efim/didMoveCursor", params)
  end
end

local function note_tick(buf)
  ticks[buf] = api.nvim_buf_get_changedtick(buf)
end

--- In insert mode only if nothing was edited: otherwise the request that follows has the place.
local function moved_while_inserting(buf)
  if ticks[buf] == api.nvim_buf_get_changedtick(buf) then
    moved(buf)
  end
  note_tick(buf)
end

---@param buf integer
local function focused(buf)
  local client = lsp.client(buf)
  if client then
    lsp.notify(client, "textDocument/didFocus", { textDocument = lsp.document(buf) })
    status.ask(buf)
  end
end

---@param events string[]
---@param callback fun(buf: integer)
local function on(group, buf, events, callback)
  api.nvim_create_autocmd(events, {
    group = group,
    buffer = buf,
    callback = function()
      callback(buf)
    end,
  })
end

---@param client vim.lsp.Client
---@param buf integer
function M.attach(client, buf)
  M.way.connect(client, buf)
  local group = api.nvim_create_augroup("efim_ls." .. buf, {})
  on(group, buf, { "InsertEnter" }, note_tick)
  on(group, buf, { "InsertEnter" }, insert_end.forget)
  on(group, buf, { "InsertLeavePre" }, insert_end.leaving)
  on(group, buf, { "InsertLeave" }, insert_end.left)
  on(group, buf, { "CursorMoved" }, insert_end.moved)
  on(group, buf, { "CursorMovedI" }, moved_while_inserting)
  on(group, buf, { "InsertCharPre" }, function()
    suggestions.foresee(buf, vim.v.char)
  end)
  on(group, buf, { "InsertEnter", "CursorMovedI", "TextChangedI", "TextChangedP" }, typed)
  on(group, buf, { "InsertLeave", "BufLeave" }, suggestions.forget)
  on(group, buf, { "InsertLeave" }, names.forget)
  on(group, buf, { "CursorMoved" }, moved)
  on(group, buf, { "BufEnter", "FocusGained" }, focused)
  local asking = { "BufEnter", "TextChanged", "TextChangedI", "CursorMoved", "CursorMovedI", "InsertLeave" }
  on(group, buf, asking, next_edit.refresh)
  on(group, buf, { "BufLeave" }, next_edit.forget)
  api.nvim_create_autocmd("LspDetach", {
    group = group,
    buffer = buf,
    callback = function(event)
      if event.data.client_id == client.id then
        suggestions.drop(buf)
        names.forget(buf)
        next_edit.forget()
        api.nvim_del_augroup_by_id(group)
      end
    end,
  })
  require("efim_ls.restart").attached(client)
  if buf == api.nvim_get_current_buf() then
    focused(buf)
    typed(buf)
    next_edit.refresh(buf)
  end
end

return M
