--- Tells the server which names the buffer's other language servers list where a name begins.
local api = vim.api
local lsp = require("efim_ls.lsp")
local M = {}

local COMPLETION = "textDocument/completion"
local MOST = 5000 -- names that the server takes: a longer list is not of one receiver
local RECEIVER = { "%.$", "%->$", "::$" }
local ARGUMENTS = { "%($", ",%s*$" }

M.ask_others = true

---@class efim_ls.Listing names of one place, from all servers that have answered so far
---@field key string
---@field items table[]
---@field servers string[]
---@field incomplete boolean

local listings = {} ---@type table<integer, efim_ls.Listing> by buffer: nothing is asked twice

local function ends_with(text, patterns)
  return vim.iter(patterns):any(function(pattern)
    return text:find(pattern) ~= nil
  end)
end

--- Send the names that are listed; of arguments only keywords, since any expression may stand there.
local function tell(client, buf, version, position, listing)
  lsp.notify(client, "efim/names", {
    textDocument = { uri = vim.uri_from_bufnr(buf), version = version },
    position = position,
    server = table.concat(listing.servers, ", "),
    isIncomplete = listing.incomplete,
    items = listing.items,
  })
end

local function add(listing, name, answer, of_arguments)
  local items = answer.items or answer
  for _, item in ipairs(#items <= MOST and items or {}) do
    if not of_arguments or vim.endswith(item.label, "=") then
      table.insert(listing.items, { label = item.label, kind = item.kind, sortText = item.sortText })
    end
  end
  table.insert(listing.servers, name)
  listing.incomplete = listing.incomplete or answer.isIncomplete == true
end

--- Ask the other servers for the names at the word at the cursor, once for each place where a word begins.
---@param buf integer the current one
function M.ask(buf)
  local ours = lsp.client(buf)
  local row, col = unpack(api.nvim_win_get_cursor(0))
  local before = api.nvim_get_current_line():sub(1, col)
  local lead = before:gsub("[%w_\128-\255]*$", "")
  local of_arguments = ends_with(lead, ARGUMENTS)
  if not M.ask_others or not ours or not (of_arguments or ends_with(lead, RECEIVER)) then
    listings[buf] = nil
    return
  end
  local key = ("%d:%s"):format(row, lead)
  if listings[buf] and listings[buf].key == key then
    return
  end
  local listing = { key = key, items = {}, servers = {}, incomplete = false }
  listings[buf] = listing
  local version = vim.lsp.util.buf_versions[buf]
  --- Where the word begins: further on a server may leave out what does not begin as it does.
  local function start(client)
    return { line = row - 1, character = lsp.units(client, before, #lead) }
  end
  for _, other in ipairs(vim.lsp.get_clients({ bufnr = buf, method = COMPLETION })) do
    if other.id ~= ours.id then
      local params = { textDocument = lsp.document(buf), position = start(other), context = { triggerKind = 1 } }
      lsp.request(other, COMPLETION, params, function(err, answer)
        if not err and answer and listings[buf] == listing and not lsp.is_stopped(ours) then
          add(listing, other.name, answer, of_arguments)
          if #listing.items > 0 then
            tell(ours, buf, version, start(ours), listing)
          end
        end
      end, buf)
    end
  end
end

---@param buf integer
function M.forget(buf)
  listings[buf] = nil
end

return M
