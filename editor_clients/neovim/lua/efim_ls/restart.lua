--- Restarts servers that die, which Neovim does not do.
local api = vim.api
local lsp = require("efim_ls.lsp")
local server = require("efim_ls.server")
local M = {}

local MOST_RESTARTS, WITHIN = 4, 180 -- seconds
local SIGTERM = 15 -- how Neovim stops a server that does not end when asked
local SECONDS_TO_END = 3

local attached = {} ---@type table<integer, vim.lsp.Client> those that run
local restarting = {} ---@type table<integer, true>
local crashes = {} ---@type integer[] when, in seconds

--- Remember a server that runs; tell a new one if suggestions are off.
---@param client vim.lsp.Client
function M.attached(client)
  if not attached[client.id] then
    attached[client.id] = client
    server.try_again()
    if not server.enabled or next(server.choices) then
      server.tell_choices(client)
    end
  end
end

---@param client vim.lsp.Client
---@param buffers integer[]
local function start_again(client, buffers)
  for _, buf in ipairs(buffers) do
    if api.nvim_buf_is_loaded(buf) then
      vim.lsp.start(client.config, { bufnr = buf, reuse_client = server.config.reuse_client })
    end
  end
end

--- Return whether a server that died may be started again.
local function may_start_again()
  local now = os.time()
  crashes = vim.tbl_filter(function(at)
    return now - at < WITHIN
  end, crashes)
  table.insert(crashes, now)
  return #crashes <= MOST_RESTARTS
end

--- Start a server again that died, or that was stopped for a restart. A server that dies too often, or before it could
--- be used, is not started again.
---@param client vim.lsp.Client? nil if it ended before it served any buffer
---@param buffers integer[]
---@param died boolean
local function after_end(client, buffers, died)
  if vim.v.exiting ~= vim.NIL then
    return
  elseif client and (restarting[client.id] or (died and may_start_again())) then
    restarting[client.id] = nil
    start_again(client, buffers)
  elseif died then
    local what = client and "ended too often" or "ended when it was started"
    local remedy = ":Efim log and :checkhealth efim_ls say why; :Efim restart starts it"
    server.fail(("the server %s and is not started again. %s"):format(what, remedy))
  end
end

---@param id integer
---@param code integer
---@param signal integer
function M.ended(id, code, signal)
  local died = signal ~= SIGTERM and (code ~= 0 or signal ~= 0)
  local client = attached[id]
  require("efim_ls.status").ended()
  local buffers = client and vim.tbl_keys(client.attached_buffers) or {} -- now: Neovim empties it next
  attached[id] = nil
  vim.schedule(function()
    after_end(client, buffers, died)
  end)
end

--- Restart the server for the buffers that it serves; start it if none runs.
function M.restart()
  local clients = lsp.clients()
  crashes = {}
  server.try_again()
  if #clients == 0 and server.check() then
    server.start_all()
  end
  for _, client in ipairs(clients) do
    restarting[client.id] = true
    lsp.stop(client)
    vim.defer_fn(function()
      if not lsp.is_stopped(client) then
        lsp.stop(client, true)
      end
    end, SECONDS_TO_END * 1000)
  end
end

return M
