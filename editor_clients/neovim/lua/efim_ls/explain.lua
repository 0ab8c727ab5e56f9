--- The window that explains the suggestion at the cursor.
local api = vim.api
local lsp = require("efim_ls.lsp")
local pages = require("efim_ls.page")
local server = require("efim_ls.server")
local M = {}

local NAME = "efim-ls://explain"
local shown = { buf = -1, win = -1, from = -1 } ---@type { buf: integer, win: integer, from: integer }
local page ---@type efim_ls.Page?

---@param message string
local function say(message)
  vim.notify("efim-ls: " .. message, vim.log.levels.INFO)
end

---@return efim_ls.Source? of the cursor's line
local function source()
  local row = api.nvim_win_get_cursor(shown.win)[1]
  return page and page.sources[row]
end

--- Open the place on the cursor's line in the window that was explained.
local function jump()
  local found = source()
  if not found then
    say("no place is named on this line")
    return
  end
  if api.nvim_win_is_valid(shown.from) then
    api.nvim_set_current_win(shown.from)
  end
  vim.cmd.edit({ vim.fn.fnameescape(found.path), magic = { file = false, bar = false } })
  api.nvim_win_set_cursor(0, { math.min(found.line, api.nvim_buf_line_count(0)), 0 })
end

--- Take nothing any more from the folder of the place on the cursor's line, until Neovim ends.
function M.leave_out()
  local found = api.nvim_get_current_buf() == shown.buf and source()
  if not found then
    say("put the cursor on a place that :Efim explain names")
    return
  end
  local folder = vim.fs.dirname(found.path)
  local files = server.setting("disabled_files") or {}
  if not vim.tbl_contains(files, folder) then
    server.choose({ disabled_files = vim.list_extend(vim.deepcopy(files), { folder }) })
  end
  local lasting = ('add "%s" to disabled_files in your settings to keep it so'):format(folder)
  say(("nothing is taken from %s until Neovim ends, and files there get no suggestions: %s"):format(folder, lasting))
end

--- Switch the memory of the repository off or on, until Neovim ends.
function M.switch_repository()
  local on = server.setting("other_files") == "off"
  local set = (server.current().init_options or {}).other_files or "auto"
  local value = not on and "off" or set ~= "off" and set or "auto"
  server.choose({ other_files = value })
  local lasting = ('set other_files = "%s" in your settings to keep it so'):format(value)
  say(("the repository's memory is %s until Neovim ends: %s"):format(on and "on" or "off", lasting))
end

local function explain_again()
  if api.nvim_win_is_valid(shown.from) then
    api.nvim_win_call(shown.from, function()
      vim.cmd.Efim("explain")
    end)
  end
end

---@param buf integer
local function map_keys(buf)
  local keys = {
    ["<CR>"] = jump,
    gf = jump,
    x = M.leave_out,
    m = M.switch_repository,
    R = explain_again,
    q = function()
      api.nvim_win_close(shown.win, true)
    end,
  }
  for key, act in pairs(keys) do
    vim.keymap.set("n", key, act, { buffer = buf, nowait = true })
  end
end

---@return integer a buffer for the page
local function buffer()
  if not api.nvim_buf_is_valid(shown.buf) then
    shown.buf = api.nvim_create_buf(false, true)
    api.nvim_buf_set_name(shown.buf, NAME)
    vim.bo[shown.buf].bufhidden = "wipe"
    map_keys(shown.buf)
  end
  return shown.buf
end

--- Show an explanation below the window that it is about; the current window stays the current one.
---@param sections efim_ls.Section[]
---@param from integer the window that was explained
function M.show(sections, from)
  page = require("efim_ls.explanation").page(sections)
  pages.gap(page)
  pages.line(page, "<CR> opens a place, x takes nothing more from its folder, R explains again, q closes;")
  pages.line(page, "m switches the repository's memory off or on")
  pages.show(page, buffer())
  shown.from = from
  local open = api.nvim_win_is_valid(shown.win) and api.nvim_win_get_buf(shown.win) == shown.buf
  if not open and api.nvim_win_is_valid(from) then
    shown.win = api.nvim_open_win(shown.buf, false, { split = "below", win = from })
    vim.wo[shown.win].wrap = true
  end
  if api.nvim_win_is_valid(shown.win) then
    pages.fold(page, shown.win)
  end
end

return M
