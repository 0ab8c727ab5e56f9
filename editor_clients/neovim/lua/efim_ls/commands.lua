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

--- Let the user choose a model among those that fit this machine, until Neovim ends.
local function choose_model()
  local server = require("efim_ls.server")
  say("looking at the models that fit this machine...")
  vim.system(server.command("models", "--json"), { text = true }, function(done)
    vim.schedule(function()
      if done.code ~= 0 then
        say(vim.trim(done.stderr), vim.log.levels.ERROR)
        return
      end
      local models = report.usable(vim.json.decode(done.stdout).models)
      vim.ui.select(models, { prompt = "efim-ls: choose a model", format_item = report.model }, function(model)
        if model then
          local changes = { model = model.setting }
          if report.is_set(model.engine) then
            changes.engine = { url = model.engine }
          elseif (server.setting("engine") or {}).url then
            changes.engine = vim.empty_dict()
          end
          server.choose(changes)
          local keep = vim.inspect(changes, { newline = " ", indent = "" })
          say(("%s answers until Neovim ends. To keep it: setup({ settings = %s })"):format(model.name, keep))
        end
      end)
    end)
  end)
end

local function clear_cache()
  local server = require("efim_ls.server")
  local settings = server.current().init_options or {}
  local command = server.command("cache", "clear", "--folder", settings.cache_folder or "")
  vim.system(command, { text = true }, function(done)
    vim.schedule(function()
      local failed = done.code ~= 0
      say(vim.trim(failed and done.stderr or done.stdout), failed and vim.log.levels.ERROR or nil)
    end)
  end)
end

local function explain_here()
  local win = vim.api.nvim_get_current_win()
  ask("efim/explain", function(client, buf)
    return { textDocument = lsp.document(buf), position = require("efim_ls.insert_end").place(client) }
  end, function(explained)
    explain.show(explained.sections, win)
  end)
end

---@return fun()
local function level(name)
  return function()
    efim().suggest(name)
  end
end

---@return fun()
local function call(name)
  return function()
    efim()[name]()
  end
end

---@class efim_ls.Command
---@field about string for the list of commands
---@field run fun()

---@type table<string, efim_ls.Command>
local commands = {
  enable = { about = "turn suggestions on", run = call("enable") },
  disable = { about = "turn suggestions off", run = call("disable") },
  toggle = { about = "turn suggestions on or off", run = call("toggle") },
  snooze = { about = "turn suggestions off for five minutes", run = call("snooze") },
  more = { about = "also show less likely suggestions", run = level("more") },
  balanced = { about = "show useful suggestions", run = level("balanced") },
  sure = { about = "show only suggestions very likely right", run = level("sure") },
  ["on-request"] = { about = "show nothing until a key asks", run = level("on request") },
  model = { about = "choose a model that fits this machine", run = choose_model },
  restart = {
    about = "restart the server",
    run = function()
      require("efim_ls.restart").restart()
    end,
  },
  log = {
    about = "open Neovim's log of language servers",
    run = function()
      vim.cmd.tabedit({ vim.fn.fnameescape(require("vim.lsp.log").get_filename()) })
    end,
  },
  status = {
    about = "show the status for this buffer",
    run = function()
      ask("efim/status", document, function(status)
        float(report.status(status))
      end)
    end,
  },
  stats = {
    about = "count requests, answers and accepted suggestions",
    run = function()
      ask("efim/stats", function()
        return {}
      end, function(stats)
        float(report.stats(stats))
      end)
    end,
  },
  explain = { about = "explain the suggestion at the cursor", run = explain_here },
  ["leave-out"] = { about = "take nothing more from the folder at the cursor", run = explain.leave_out },
  repository = { about = "switch the memory of the repository's files", run = explain.switch_repository },
  ["clear-cache"] = { about = "remove what the server keeps on disk", run = clear_cache },
  help = {
    about = "open the help",
    run = function()
      vim.cmd.help("efim-ls")
    end,
  },
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

--- Let the user choose a subcommand.
local function choose()
  local options = {
    prompt = "efim-ls",
    format_item = function(name)
      return ("%-12s %s"):format(name, commands[name].about)
    end,
  }
  vim.ui.select(M.names(""), options, function(name)
    if name then
      commands[name].run()
    end
  end)
end

--- Run a subcommand; without one, show all of them.
---@param name string?
function M.run(name)
  local command = commands[name]
  if command then
    command.run()
  elseif not name then
    choose()
  else
    say(("there is no :Efim %s. Use one of %s"):format(name, table.concat(M.names(""), ", ")), vim.log.levels.ERROR)
  end
end

return M
