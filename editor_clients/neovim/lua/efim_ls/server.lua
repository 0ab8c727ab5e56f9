--- How the server is started, and started again.
local api = vim.api
local lsp = require("efim_ls.lsp")
local M = {}

local failure ---@type string? why there is no server, as it was said
local has_enable = vim.lsp.enable ~= nil

M.enabled = true
M.choices = {} ---@type table<string, any> settings that were changed since Neovim started

--- A |vim.lsp.Config|. One server serves all buffers of any filetype: the model is loaded once, and the server decides
--- which files are left out.
M.config = {
  name = "efim_ls",
  cmd = { "efim-ls" },
  root_markers = { ".git" },
  capabilities = {
    textDocument = { inlineCompletion = { dynamicRegistration = false } },
    experimental = { efimStatus = true, efimImprovedSuggestions = true },
  },
  handlers = {
    ["efim/didChangeStatus"] = function(_, status, context)
      require("efim_ls.status").changed(context.client_id, status)
    end,
    ["efim/didImproveSuggestion"] = function(_, params)
      require("efim_ls.suggestions").ask_again(vim.uri_to_bufnr(params.textDocument.uri))
    end,
  },
  before_init = function()
    require("efim_ls.status").starting()
  end,
  reuse_client = function(client, config)
    return client.name == config.name and not lsp.is_stopped(client)
  end,
  on_exit = function(code, signal, id)
    require("efim_ls.restart").ended(id, code, signal)
  end,
}

--- Return the configuration in force: this one, overridden by what the user has set.
function M.current()
  return has_enable and vim.lsp.config.efim_ls or M.config
end

--- Return the command line of another command of the same program.
---@param ... string
---@return string[]
function M.command(...)
  local command = vim.deepcopy(M.current().cmd)
  if command[#command] == "serve" then
    table.remove(command)
  end
  return vim.list_extend(command, { ... })
end

--- Do something once Neovim has started and shown its own messages, which would cover ours.
local function later(act)
  if vim.v.vim_did_enter == 1 then
    vim.schedule(act)
  else
    api.nvim_create_autocmd("VimEnter", { once = true, callback = vim.schedule_wrap(act) })
  end
end

--- Say why there is no server, and say it once.
---@param message string
function M.fail(message)
  if failure ~= message then
    failure = message
    later(function()
      vim.notify("efim-ls: " .. message, vim.log.levels.ERROR)
      vim.cmd.redrawstatus({ bang = true })
    end)
  end
end

--- Forget why there was no server: one is there, or the user has done something about it.
function M.try_again()
  failure = nil
end

---@return boolean whether a server was to be there, and is not
function M.has_failed()
  return failure ~= nil
end

--- Return whether the server is meant for a buffer.
---@param buf integer
function M.is_for(buf)
  local filetypes = M.current().filetypes
  return vim.bo[buf].buftype == "" and (not filetypes or vim.list_contains(filetypes, vim.bo[buf].filetype))
end

--- Return why the command cannot be run; nil if it can.
---@return string?
function M.problem()
  local cmd = M.current().cmd
  if type(cmd) ~= "table" or vim.fn.executable(cmd[1]) == 1 then
    return nil
  end
  local remedy = "Install the server (:help efim-ls-installing), or name it with "
    .. 'require("efim_ls").setup({ cmd = { "/path/of/efim-ls" } })'
  return ("cannot run %s: there is no such program. %s"):format(cmd[1], remedy)
end

--- Say once why the server cannot be started, which Neovim only logs.
---@return boolean whether it can
function M.check()
  local problem = M.problem()
  if problem then
    M.fail(problem)
  end
  return problem == nil
end

function M.check_enabled()
  if vim.lsp.is_enabled and vim.lsp.is_enabled("efim_ls") then
    M.check()
  end
end

---@param buf integer
local function start(buf)
  local config = M.config
  if vim.bo[buf].buftype == "" and api.nvim_buf_is_loaded(buf) and M.check() then
    local whole = vim.tbl_extend("force", config, {
      root_dir = vim.fs.root(buf, config.root_markers),
      capabilities = vim.tbl_deep_extend("force", vim.lsp.protocol.make_client_capabilities(), config.capabilities),
    })
    vim.lsp.start(whole, { bufnr = buf, reuse_client = config.reuse_client })
  end
end

--- Start the server for all buffers, open and future.
function M.start_all()
  if has_enable then
    vim.lsp.enable("efim_ls")
    return
  end
  local group = api.nvim_create_augroup("efim_ls.start", {})
  api.nvim_create_autocmd("FileType", {
    group = group,
    pattern = M.config.filetypes,
    callback = function(event)
      start(event.buf)
    end,
  })
  vim.cmd.doautoall("efim_ls.start FileType")
end

--- Start the server for every buffer that it is meant for.
---@param chosen { cmd: string[]?, filetypes: string[]?, init_options: table? }
function M.enable(chosen)
  if has_enable then
    vim.lsp.config("efim_ls", chosen)
  else
    M.config = vim.tbl_extend("force", M.config, chosen)
  end
  M.check()
  M.start_all()
end

--- Tell a server whether suggestions are on, and the other settings that were chosen since Neovim started.
---@param client vim.lsp.Client
function M.tell_choices(client)
  local known = client.settings and client.settings["efim-ls"] or {}
  client.settings = vim.tbl_extend("force", client.settings or {}, {
    ["efim-ls"] = vim.tbl_extend("force", known, M.choices, { enabled = M.enabled }),
  })
  lsp.notify(client, "workspace/didChangeConfiguration", { settings = client.settings })
end

--- Change settings of the server until Neovim ends.
---@param changes table<string, any>
function M.choose(changes)
  M.choices = vim.tbl_extend("force", M.choices, changes)
  for _, client in ipairs(lsp.clients()) do
    M.tell_choices(client)
  end
end

--- Return a setting of the server as it was chosen or set, nil if it has its default.
---@param name string
function M.setting(name)
  local set = (M.current().init_options or {})[name]
  if M.choices[name] ~= nil then
    return M.choices[name]
  end
  return set
end

return M
