--- What the server reports about itself, for a status line and for people.
local api = vim.api
local lsp = require("efim_ls.lsp")
local M = {}

---@class efim_ls.Status
---@field state "loading" | "ready" | "off" | "error"
---@field message string
---@field fallback string? why the embedded model is used in place of the named one; empty if it is not
---@field notice string? what to know about suggestions in a buffer although they are on
---@field larger string? the larger model in the server's process that is asked as well; empty if none is
---@field remote string? name and port of the machine whose model is asked as well; empty if none is
---@field busy boolean?
---@field percentage integer?
---@field last { ms: number, reused: integer, recomputed: integer, reason: string? }?

local by_client = {} ---@type table<integer, efim_ls.Status>
local is_starting = false -- a server was started, and has not reported a status yet
local by_buffer = {} ---@type table<integer, efim_ls.Status> where it differs: rules leave out files and languages

local is_set = require("efim_ls.report").is_set

--- Return the status of a buffer; nil if no server is attached or has reported one.
---@param buf integer?
---@return efim_ls.Status?
function M.info(buf)
  buf = buf or api.nvim_get_current_buf()
  local client = lsp.client(buf)
  local status = client and by_client[client.id]
  local of_buffer = by_buffer[buf]
  if not (status and status.state == "ready" and of_buffer) then
    return status
  elseif of_buffer.state == "off" then
    return of_buffer
  end
  return vim.tbl_extend("force", status, { notice = of_buffer.notice })
end

--- Called before a server is asked for anything.
function M.starting()
  is_starting = true
  vim.cmd.redrawstatus({ bang = true })
end

--- Called when a server has ended.
function M.ended()
  is_starting = false
end

---@param client vim.lsp.Client
---@return efim_ls.Status?
function M.of_client(client)
  return by_client[client.id]
end

---@param buf integer
---@return string
local function without_status(buf)
  local server = require("efim_ls.server")
  if not server.is_for(buf) then
    return ""
  elseif is_starting or lsp.client(buf) then
    return "efim starting"
  end
  return server.has_failed() and "efim no server" or ""
end

--- Return a short text for a status line; empty if no server is meant for the buffer.
---@return string
function M.text()
  local status = M.info()
  if not status then
    return without_status(api.nvim_get_current_buf())
  end
  local limited = status.state == "ready" and is_set(status.notice)
  local words = { "efim", status.busy and "busy" or limited and "limited" or status.state }
  if status.state == "loading" and is_set(status.percentage) and status.percentage > 0 then
    words[#words + 1] = status.percentage .. " %"
  elseif status.state == "ready" and not status.busy and is_set(status.last) then
    words[#words + 1] = ("%.1f ms"):format(status.last.ms)
  end
  if status.state == "ready" and is_set(status.fallback) and status.fallback ~= "" then
    words[#words + 1] = "(embedded model)"
  end
  if status.state == "ready" and (status.remote or "") ~= "" then
    words[#words + 1] = "with " .. status.remote
  end
  return table.concat(words, " ")
end

--- Ask for the status of a buffer, and redraw status lines.
---@param buf integer
---@param answered fun(status: efim_ls.Status)?
function M.ask(buf, answered)
  local client = lsp.client(buf)
  if client then
    lsp.request(client, "efim/status", { textDocument = lsp.document(buf) }, function(err, status)
      if not err and status then
        is_starting = false
        by_client[client.id] = by_client[client.id] or status
        by_buffer[buf] = status
        vim.cmd.redrawstatus({ bang = true })
      end
      if answered and status then
        answered(status)
      end
    end, buf)
  end
end

--- Called with the current buffer when the server becomes ready.
---@type fun(buf: integer)
M.when_ready = function() end

--- Take over a status that the server sent unasked.
---@param id integer the client's
---@param status efim_ls.Status
function M.changed(id, status)
  local before, buf = by_client[id], api.nvim_get_current_buf()
  is_starting = false
  by_client[id] = status
  vim.cmd.redrawstatus({ bang = true })
  if not before or before.state ~= status.state then
    for attached in pairs(vim.lsp.get_client_by_id(id).attached_buffers) do
      M.ask(attached) -- what a buffer's status says may depend on the model
    end
    if status.state == "ready" and before then
      M.when_ready(buf)
    end
  end
end

return M
