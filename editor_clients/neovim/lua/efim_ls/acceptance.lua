--- What happens when a suggestion is accepted, in whole or in part.
local api = vim.api
local lsp = require("efim_ls.lsp")
local parts = require("efim_ls.parts")
local place = require("efim_ls.place")
local suggestions = require("efim_ls.suggestions")
local M = {}

local pending = false

--- Report to the server how much was accepted: the whole rest, or UTF-16 units from the suggestion's start.
---@param buf integer
---@param left efim_ls.Left
---@param part string
local function tell(buf, left, part)
  local client, item = lsp.client(buf), left.item
  if not client or not item.command then
    return
  elseif part == left.text then
    local params = { command = item.command.command, arguments = item.command.arguments }
    lsp.request(client, "workspace/executeCommand", params, function() end, buf)
  else
    lsp.notify(client, "textDocument/didPartiallyAcceptCompletion", {
      item = { insertText = item.text, command = item.command },
      acceptedLength = parts.utf16_length(item.text:sub(1, #item.text - #left.text + #part)),
    })
  end
end

--- Insert a text at a place; a bracket that it opens at its end is typed, for whatever closes the user's brackets.
---@param at efim_ls.Place
---@param text string
---@return boolean false where anything else has changed on that line
local function insert(at, text)
  local inner, opener = text:match("^(.-)([%(%[{]?)$")
  if opener == "" or place.typed_since(at) ~= "" then
    return place.insert(at, text)
  elseif not place.insert(at, inner) then
    return false
  end
  api.nvim_feedkeys(opener, "it", false) -- before the keys that were pressed since
  return true
end

--- Insert a part of the suggestion once the mapping has ended and the text may change. It goes where the cursor is now,
--- whatever is typed until then.
---@param buf integer the current one
---@param part_of fun(text: string): string
---@return boolean
function M.accept(buf, part_of)
  local left = suggestions.left(buf)[1]
  if not left then
    return false
  end
  local at, part = place.here(), part_of(left.text)
  local after_another = pending
  pending = true
  vim.schedule(function()
    pending = false
    if after_another then
      M.accept(buf, part_of)
    elseif api.nvim_get_current_buf() == buf and insert(at, part) then
      suggestions.refresh(buf)
      tell(buf, left, part)
    end
  end)
  return true
end

return M
