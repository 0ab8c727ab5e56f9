--- What `:Efim` can do.
local explain = require("efim_ls.explain")
local lsp = require("efim_ls.lsp")
local report = require("efim_ls.report")
local M = {}

local function efim()
  return require("efim_ls")
end

---@param message string
---@param level integer?
local function say(message, level)
  vim.notify("efim-ls: " .. message, level or vim.log.levels.INFO)
end

--- Send a request about the current buffer, and show what comes back.
---@param method string
---@param params fun(client: vim.lsp.Client, buf: integer): table
---@param show fun(answer: table)
local function ask(method, params, show)
  local buf = vim.api.nvim_get_current_buf()
  local client = lsp.client(buf)
  if not client then
    say("no server is attached to this buffer. :checkhealth efim_ls says why", vim.log.levels.WARN)
    return
  end
  lsp.request(client, method, params(client, buf), function(err, answer)
    if err then
      say(("%s failed: %s"):format(method, err.message), vim.log.levels.ERROR)
    else
      show(answer)
    end
  end, buf)
end

local function document(_, buf)
  return { textDocument = lsp.document(buf) }
end

---@param lines string[] its title first
local function float(lines)
  vim.lsp.util.open_floating_preview(lines, "markdown", { border = "rounded", focus_id = lines[1], wrap = true })
end

local commands = {
  enable = function()
    efim().enable()
  end,
  disable = function()
    efim().disable()
  end,
  toggle = function()
    efim().toggle()
  end,
  more = function()
    efim().suggest("more")
  end,
  balanced = function()
    efim().suggest("balanced")
  end,
  sure = function()
    efim().suggest("sure")
  end,
  ["on-request"] = function()
    efim().suggest("on request")
  end,
  restart = function()
    require("efim_ls.restart").restart()
  end,
  log = function()
    vim.cmd.tabedit({ vim.fn.fnameescape(require("vim.lsp.log").get_filename()) })
  end,
  status = function()
    ask("efim/status", document, function(status)
      float(report.status(status))
    end)
  end,
  stats = function()
    ask("efim/stats", function()
      return {}
    end, function(stats)
      float(report.stats(stats))
    end)
  end,
  explain = function()
    local win = vim.api.nvim_get_current_win()
    ask("efim/explain", function(client, buf)
      return { textDocument = lsp.document(buf), position = require("efim_ls.insert_end").place(client) }
    end, function(explained)
      explain.show(explained.sections, win)
    end)
  end,
  ["leave-out"] = explain.leave_out,
  repository = explain.switch_repository,
  ["clear-cache"] = function()
    local server = require("efim_ls.server")
    local settings = server.current().init_options or {}
    local command = server.command("cache", "clear", "--folder", settings.cache_folder or "")
    vim.system(command, { text = true }, function(done)
      vim.schedule(function()
        local failed = done.code ~= 0
        say(vim.trim(failed and done.stderr or done.stdout), failed and vim.log.levels.ERROR or nil)
      end)
    end)
  end,
}

--- Return the names of the subcommands that begin with `start`.
---@param start string
---@return string[]
function M.names(start)
  local names = vim.tbl_filter(function(name)
    return vim.startswith(name, start)
  end, vim.tbl_keys(commands))
  table.sort(names)
  return names
end

---@param name string
function M.run(name)
  local command = commands[name]
  if command then
    command()
  else
    say(("there is no :Efim %s. Use one of %s"):format(name, table.concat(M.names(""), ", ")), vim.log.levels.ERROR)
  end
end

return M
