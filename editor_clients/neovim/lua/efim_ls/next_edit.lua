--- The next edit: asked for after edits and moves, shown, gone to, made, or refused.
local api = vim.api
local lsp = require("efim_ls.lsp")
local marks = require("efim_ls.edit_marks")
local report = require("efim_ls.report")
local server = require("efim_ls.server")
local suggestions = require("efim_ls.suggestions")
local M = {}

local ACT = api.nvim_replace_termcodes("<Cmd>lua require('efim_ls.next_edit').act()<CR>", true, true, true)
local STILL = 150 -- milliseconds without a key after which it is asked for

---@class efim_ls.NextEdit
---@field client vim.lsp.Client
---@field buf integer where it is
---@field range efim_ls.Range
---@field text string
---@field change lsp.TextEdit the same in the server's words
---@field version integer? of the buffer's text; nil where that is not loaded, and columns are not known
---@field command lsp.Command tells the server that it was made

local shown ---@type efim_ls.NextEdit?
local due ---@type fun(edit: efim_ls.NextEdit)? what a key has asked for
local pending ---@type { client: vim.lsp.Client, id: integer? }?
local timer = assert(vim.uv.new_timer())
local seen ---@type string? the id that was last reported to the server as shown

---@param client vim.lsp.Client
---@param answer table
---@return efim_ls.NextEdit? nil where it is in a buffer that has another text
local function understood(client, answer)
  local buf, first, last = vim.uri_to_bufnr(answer.textDocument.uri), answer.range.start, answer.range["end"]
  local edit = { client = client, buf = buf, text = (answer.text:gsub("\r\n?", "\n")), command = answer.command }
  edit.change = { range = answer.range, newText = answer.text }
  if not report.is_set(answer.textDocument.version) then
    edit.range = { row = first.line, col = 0, end_row = last.line, end_col = 0 }
    return not api.nvim_buf_is_loaded(buf) and edit or nil
  end
  edit.version = answer.textDocument.version
  if not api.nvim_buf_is_loaded(buf) or vim.lsp.util.buf_versions[buf] ~= edit.version then
    return nil
  end
  local last_row = api.nvim_buf_line_count(buf) - 1
  local function place(position)
    local row = math.min(position.line, last_row) -- behind the last line end there is no line here
    local line = api.nvim_buf_get_lines(buf, row, row + 1, true)[1]
    return row, position.line > last_row and #line or lsp.byte(client, line, position.character)
  end
  local row, col = place(first)
  local end_row, end_col = place(last)
  edit.range = { row = row, col = col, end_row = end_row, end_col = end_col }
  return edit
end

--- Return the edit that is shown, unless its text is another by now, or was not loaded and is.
---@return efim_ls.NextEdit?
local function current()
  if shown then
    local version = api.nvim_buf_is_loaded(shown.buf) and vim.lsp.util.buf_versions[shown.buf] or nil
    if version ~= shown.version then
      M.hide()
    end
  end
  return shown
end

---@param edit efim_ls.NextEdit
local function in_view(edit)
  return edit.buf == api.nvim_get_current_buf()
    and edit.range.end_row + 1 >= vim.fn.line("w0")
    and edit.range.row + 1 <= vim.fn.line("w$")
end

---@param edit efim_ls.NextEdit
local function at_cursor(edit)
  local row = api.nvim_win_get_cursor(0)[1] - 1
  return edit.buf == api.nvim_get_current_buf() and edit.range.row <= row and row <= edit.range.end_row
end

--- Draw the edit; where it cannot be seen, say at the cursor's line where it is.
function M.draw()
  local edit = current()
  marks.hide()
  if not edit then
    return
  end
  if edit.version then
    marks.show(edit.buf, edit.range, edit.text)
  end
  if not in_view(edit) then
    local name = edit.buf == api.nvim_get_current_buf() and "line"
      or vim.fn.fnamemodify(api.nvim_buf_get_name(edit.buf), ":t") .. ":"
    marks.hint(("next edit: %s %d"):format(name, edit.range.row + 1))
  end
  local id = edit.command.arguments[1]
  if seen ~= id then
    seen = id
    lsp.notify(edit.client, "textDocument/didShowInlineEdit", { item = { command = edit.command } })
  end
end

function M.hide()
  shown = nil
  marks.hide()
end

--- Whether a key or a menu has another meaning now, or ghost text is shown.
---@param buf integer
local function is_busy(buf)
  return vim.fn.pumvisible() == 1
    or (vim.snippet ~= nil and vim.snippet.active ~= nil and vim.snippet.active())
    or #suggestions.left(buf) > 0
end

local function cancel()
  timer:stop()
  if pending and pending.id then
    lsp.cancel(pending.client, pending.id)
  end
  pending = nil
end

---@param buf integer
local function ask(buf)
  local client = lsp.client(buf)
  if not client or buf ~= api.nvim_get_current_buf() or not server.enabled then
    return
  end
  cancel()
  local document = { uri = vim.uri_from_bufnr(buf), version = vim.lsp.util.buf_versions[buf] }
  local asked = { client = client }
  pending = asked
  asked.id = lsp.request(client, "textDocument/copilotInlineEdit", {
    textDocument = document,
    position = lsp.position(client),
    otherFiles = true,
    isTyping = vim.startswith(api.nvim_get_mode().mode, "i"),
  }, function(err, answer)
    if pending ~= asked then
      return
    end
    pending = nil
    local edit = not err and answer and answer.edits[1]
    shown = edit and buf == api.nvim_get_current_buf() and not is_busy(buf) and understood(client, edit) or nil
    M.draw()
  end, buf)
end

--- Forget the edit that is shown, and the pending request.
function M.forget()
  cancel()
  M.hide()
end

--- Ask for the next edit once the user has paused.
---@param buf integer
function M.refresh(buf)
  if server.setting("next_edit") == false then
    M.forget()
    return
  end
  M.draw()
  timer:start(
    STILL,
    0,
    vim.schedule_wrap(function()
      ask(buf)
    end)
  )
end

---@param edit efim_ls.NextEdit
---@param command string
local function tell(edit, command)
  local params = { command = command, arguments = edit.command.arguments }
  lsp.request(edit.client, "workspace/executeCommand", params, function() end, edit.buf)
end

---@param edit efim_ls.NextEdit
local function go_to(edit)
  if edit.buf ~= api.nvim_get_current_buf() then
    local may_leave = vim.o.hidden or not vim.bo.modified
    vim.bo[edit.buf].buflisted = true
    vim.cmd[may_leave and "buffer" or "sbuffer"](edit.buf)
  end
  vim.cmd("normal! m'")
  api.nvim_win_set_cursor(0, { math.min(edit.range.row + 1, api.nvim_buf_line_count(0)), edit.range.col })
end

--- Close an undo block, so that what comes is undone by itself.
local function close_undo_block()
  vim.cmd("let &g:undolevels = &g:undolevels")
end

---@param edit efim_ls.NextEdit
local function make(edit)
  local range, lines = edit.range, vim.split(edit.text, "\n", { plain = true })
  close_undo_block()
  vim.lsp.util.apply_text_edits({ edit.change }, edit.buf, edit.client.offset_encoding)
  close_undo_block()
  if edit.buf == api.nvim_get_current_buf() then
    local row = math.min(range.row + #lines, api.nvim_buf_line_count(edit.buf))
    local col = #lines == 1 and range.col + #edit.text or #lines[#lines]
    api.nvim_win_set_cursor(0, { row, math.min(col, #vim.fn.getline(row)) })
  end
  M.hide()
  tell(edit, edit.command.command)
  M.refresh(api.nvim_get_current_buf())
end

--- Do what a key has asked for; called by keys that come before those typed since.
function M.act()
  local act, edit = due, current()
  due = nil
  if act and edit then
    act(edit)
  end
end

--- Do something with the edit that is shown, once the mapping has ended and the text may change.
---@param act fun(edit: efim_ls.NextEdit)
---@return boolean false if nothing is shown, or the key has another meaning now
local function with_shown(act)
  if not current() or is_busy(api.nvim_get_current_buf()) then
    return false
  end
  due = act
  api.nvim_feedkeys(ACT, "in", false) -- a scheduled function would run after keys that are already typed
  return true
end

function M.jump()
  return with_shown(go_to)
end

function M.accept()
  return with_shown(make)
end

--- Go to the edit, or make it where the cursor is on its line.
function M.jump_or_accept()
  return with_shown(function(edit)
    if at_cursor(edit) then
      make(edit)
    else
      go_to(edit)
    end
  end)
end

--- Never offer this edit again.
function M.refuse()
  return with_shown(function(edit)
    M.hide()
    tell(edit, "efim-ls.refuseNextEdit")
  end)
end

return M
