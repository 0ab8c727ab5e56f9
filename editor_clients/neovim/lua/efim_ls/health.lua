--- |:checkhealth| efim_ls
local health = vim.health
local lsp = require("efim_ls.lsp")
local server = require("efim_ls.server")
local M = {}

local function check_neovim()
  health.start("Neovim")
  local version = tostring(vim.version())
  if lsp.native then
    health.ok(version .. ": suggestions are drawn by vim.lsp.inline_completion")
    if not vim.lsp.inline_completion.is_enabled() then
      health.warn("inline completion is not enabled", { "call vim.lsp.inline_completion.enable()" })
    end
  elseif vim.fn.has("nvim-0.10") == 1 then
    health.ok(version .. ": suggestions are drawn by this plugin; 0.12 draws them itself")
  else
    health.error(version .. " is too old", { "install Neovim 0.10 or newer; 0.12 is best" })
  end
end

local function check_command()
  health.start("Server")
  local problem = server.problem()
  if problem then
    health.error(problem, { "see :help efim-ls-installing", "or name the server in `cmd`" })
    return
  end
  local command = server.command("--version")
  local done = vim.system(command, { text = true }):wait()
  local said = vim.trim((done.stdout or "") .. (done.stderr or ""))
  if done.code == 0 and vim.startswith(said, "efim-ls ") then
    health.ok(("%s: %s"):format(vim.fn.exepath(command[1]), said))
  else
    local tried = table.concat(command, " ")
    health.error(("`%s` does not run efim-ls: %s"):format(tried, said), { "run it in a shell", "check `cmd`" })
  end
end

---@param status table
local function check_state(status)
  local told = ("%s: %s"):format(status.state, status.message)
  if status.state == "error" then
    health.error(told, { "check `model` and `device` in the settings", "see :Efim log" })
  elseif status.state == "off" then
    health.warn(told, { ":Efim enable, or change the setting that is named here" })
  else
    health.ok(told)
  end
  if status.model then
    health.info(("model: %s, device: %s"):format(status.model, status.device))
  end
end

local function check_clients()
  health.start("Client")
  local clients = lsp.clients()
  if #clients == 0 then
    local advice = { '`vim.lsp.enable("efim_ls")`, or `require("efim_ls").setup({})`', "open a file" }
    health.warn("no server is running", advice)
  end
  for _, client in ipairs(clients) do
    local buffers = vim.tbl_count(client.attached_buffers)
    health.ok(("client %d serves %d buffer%s"):format(client.id, buffers, buffers == 1 and "" or "s"))
    local status = require("efim_ls.status").of_client(client)
    if status then
      check_state(status)
    else
      local advice = { ":Efim restart", "update the server to the version of this plugin" }
      health.warn("the server has not reported its status", advice)
    end
  end
end

local function check_keys()
  health.start("Keys")
  local mapped = require("efim_ls.keys").mapped
  for name, key in vim.spairs(mapped) do
    health.ok(("%s: %s"):format(key, name))
  end
  if next(mapped) == nil then
    health.info("setup() has mapped none; see :help efim-ls-keys")
  end
end

function M.check()
  check_neovim()
  check_command()
  check_clients()
  check_keys()
end

return M
