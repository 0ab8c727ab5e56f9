--- The suggestions of each buffer: requested, kept while they are typed through, and dropped.
local api = vim.api
local lsp = require("efim_ls.lsp")
local place = require("efim_ls.place")
local M = {}

---@class efim_ls.Item
---@field text string the whole suggestion
---@field command lsp.Command? tells the server that it was accepted
---@field seen boolean whether it was reported to the server as shown

---@class efim_ls.Shown
---@field place efim_ls.Place where `text` of the items begins
---@field items efim_ls.Item[]
---@field index integer the selected one

---@class efim_ls.Left
---@field text string the part that is not typed yet
---@field item efim_ls.Item

---@class efim_ls.State
---@field asked string? the place that was asked about last: nothing is asked twice
---@field dismissed string? the last of these places whose suggestion was refused
---@field pending { client: vim.lsp.Client, id: integer }?
---@field shown efim_ls.Shown?
---@field draw fun(left: efim_ls.Left[], hint: string?)? shows the first, or nothing

local states = {} ---@type table<integer, efim_ls.State>

---@param buf integer
---@return efim_ls.State
local function state_of(buf)
  states[buf] = states[buf] or {}
  return states[buf]
end

local function tell_seen(buf, item)
  local client = lsp.client(buf)
  if client and not item.seen and item.command then
    item.seen = true
    local shown = { insertText = item.text, command = item.command }
    lsp.notify(client, "textDocument/didShowCompletion", { item = shown })
  end
end

--- Return the rests of the suggestions that begin with the text typed since the request, the selected suggestion first.
---@param shown efim_ls.Shown
---@return efim_ls.Left[]
local function left_of(shown)
  local typed, count, left = place.typed_since(shown.place), #shown.items, {}
  for step = 0, typed and count - 1 or -1 do
    local item = shown.items[(shown.index - 1 + step) % count + 1]
    if #item.text > #typed and vim.startswith(item.text, typed) then
      left[#left + 1] = { text = item.text:sub(#typed + 1), item = item }
    end
  end
  return left
end

---@param buf integer
---@return efim_ls.Left[]
function M.left(buf)
  local shown = state_of(buf).shown
  return shown and left_of(shown) or {}
end

--- Draw the rest of the suggestion; nothing if other text was typed.
---@param buf integer
function M.refresh(buf)
  local state = state_of(buf)
  if not state.shown or not state.draw then
    return
  end
  local left = left_of(state.shown)
  state.draw(left)
  if #left == 0 then
    state.shown = nil
  else
    tell_seen(buf, left[1].item)
  end
end

--- Draw what will be left after a character that is about to be typed: the screen may be drawn before the event that
--- reports it.
---@param buf integer
---@param char string
function M.foresee(buf, char)
  local state, left = state_of(buf), {}
  for _, each in ipairs(M.left(buf)) do
    if vim.startswith(each.text, char) then
      left[#left + 1] = { text = each.text:sub(#char + 1), item = each.item }
    end
  end
  if state.shown and state.draw then
    state.draw(left)
  end
end

--- Draw the suggestions of a buffer with a function, beginning with the current ones.
function M.draw_with(buf, draw)
  state_of(buf).draw = draw
  M.refresh(buf)
end

local function cancel(state)
  if state.pending then
    lsp.cancel(state.pending.client, state.pending.id)
    state.pending = nil
  end
end

--- Return whether an answer is shown already; it then stays and keeps its number.
local function is_known(buf, items)
  local left = M.left(buf)
  return #items == 1 and #left > 0 and left[1].text == items[1].insertText
end

local function take(buf, asked_at, answer)
  local items = answer and (answer.items or answer) or {}
  if #items == 0 or is_known(buf, items) or not vim.startswith(api.nvim_get_mode().mode, "i") then
    return
  end
  local ours = vim.tbl_map(function(item)
    return { text = item.insertText, command = item.command, seen = false }
  end, items)
  state_of(buf).shown = { place = asked_at, items = ours, index = 1 }
  M.refresh(buf)
end

--- Request suggestions at the cursor, unless that was done already; an earlier request is cancelled.
---@param buf integer the current one
---@param kind integer `lsp.INVOKED` or `lsp.AUTOMATIC`
function M.ask(buf, kind)
  local client, state, at = lsp.client(buf), state_of(buf), place.here()
  local key = place.key(buf, at)
  if not client or (kind == lsp.AUTOMATIC and state.asked == key) then
    return
  end
  cancel(state)
  state.asked, state.dismissed = key, nil
  local params = { textDocument = lsp.document(buf), position = lsp.position(client) }
  params.context = { triggerKind = kind }
  local pending = { client = client }
  state.pending = pending
  pending.id = lsp.request(client, lsp.INLINE, params, function(err, answer)
    if state.pending == pending and not err and api.nvim_get_current_buf() == buf then
      state.pending = nil
      take(buf, at, answer)
    end
  end, buf)
end

--- Repeat the last request, since a better suggestion has come; not if anything was typed since, or the first
--- suggestion was dismissed.
---@param buf integer
function M.ask_again(buf)
  local state = states[buf]
  if not state or buf ~= api.nvim_get_current_buf() or state.asked == state.dismissed then
    return
  end
  if state.asked == place.key(buf, place.here()) then
    state.asked = nil
    M.ask(buf, lsp.AUTOMATIC)
  end
end

--- Select another suggestion, and return which of how many it is; nil if there is none.
---@param buf integer
---@param count integer how many further, backwards where negative
---@return string?
function M.select(buf, count)
  local left, shown = M.left(buf), state_of(buf).shown
  if not shown or #left == 0 then
    return nil
  end
  local chosen = left[count % #left + 1].item
  for index, item in ipairs(shown.items) do
    shown.index = item == chosen and index or shown.index
  end
  tell_seen(buf, chosen)
  return ("(%d/%d)"):format(shown.index, #shown.items)
end

--- Hide the suggestions of this place.
---@param buf integer
function M.dismiss(buf)
  local state = state_of(buf)
  local was_shown = state.shown ~= nil
  cancel(state)
  state.shown, state.dismissed = nil, state.asked
  if state.draw then
    state.draw({})
  end
  return was_shown
end

--- Forget the last request, too, so that the same place may be requested again.
---@param buf integer
function M.forget(buf)
  M.dismiss(buf)
  states[buf].asked = nil
end

--- Forget a buffer whose server has ended.
---@param buf integer
function M.drop(buf)
  M.dismiss(buf)
  states[buf] = nil
end

return M
