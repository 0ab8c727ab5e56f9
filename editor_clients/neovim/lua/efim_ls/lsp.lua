--- The parts of Neovim's LSP client that differ between versions.
local M = {}

M.INLINE = "textDocument/inlineCompletion"
M.INVOKED, M.AUTOMATIC = 1, 2
M.native = vim.lsp.inline_completion ~= nil

local methods = vim.fn.has("nvim-0.11") == 1
local originals = {} ---@type table<integer, function> by client, what `intercept` has put itself before

--- Return the client that serves a buffer.
---@param buf integer
---@return vim.lsp.Client?
function M.client(buf)
  return vim.lsp.get_clients({ bufnr = buf, name = "efim_ls" })[1]
end

---@return vim.lsp.Client[]
function M.clients()
  return vim.lsp.get_clients({ name = "efim_ls" })
end

--- Call a client's function, which takes the client itself from 0.11 on.
local function call(client, fn, ...)
  if methods then
    return fn(client, ...)
  end
  return fn(...)
end

---@return integer? id with which the request can be cancelled
function M.request(client, method, params, handler, buf)
  local sent, id = call(client, originals[client.id] or client.request, method, params, handler, buf)
  return sent and id or nil
end

function M.notify(client, method, params)
  call(client, client.notify, method, params)
end

function M.cancel(client, id)
  call(client, client.cancel_request, id)
end

---@param force boolean?
function M.stop(client, force)
  call(client, client.stop, force)
end

---@return boolean
function M.is_stopped(client)
  return call(client, client.is_stopped)
end

--- Call `handle` in place of a client's requests of one method; `M.request` still sends them.
---@param handle fun(params: table, handler: function, buf: integer)
function M.intercept(client, method, handle)
  if originals[client.id] then
    return
  end
  local request = client.request
  originals[client.id] = request
  client.request = function(self, asked, params, handler, buf)
    if asked == method then
      handle(params, handler, buf)
      return true
    end
    return request(self, asked, params, handler, buf)
  end
end

function M.document(buf)
  return { uri = vim.uri_from_bufnr(buf) }
end

--- Return the byte of a line at which a position of the server is.
---@param line string
---@param character integer in a client's units
function M.byte(client, line, character)
  local encoding = client.offset_encoding
  if encoding == "utf-8" then
    return math.min(character, #line)
  elseif methods then
    return vim.str_byteindex(line, encoding, character, false)
  end
  return vim.str_byteindex(line, character, encoding == "utf-16")
end

--- Return how far a byte of a line is from its start, in a client's units.
---@param line string
---@param byte integer
function M.units(client, line, byte)
  local encoding = client.offset_encoding
  if encoding == "utf-8" then
    return byte
  elseif methods then
    return vim.str_utfindex(line, encoding, byte, false)
  end
  local utf32, utf16 = vim.str_utfindex(line, byte)
  return encoding == "utf-16" and utf16 or utf32
end

--- Return the cursor's position in a client's units.
function M.position(client)
  return vim.lsp.util.make_position_params(0, client.offset_encoding).position
end

return M
