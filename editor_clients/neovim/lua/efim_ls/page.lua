--- Text with highlights, and places in files to jump to, for a buffer to show.
local api = vim.api
local M = {}

M.namespace = api.nvim_create_namespace("efim_ls.page")

---@class efim_ls.Source
---@field path string
---@field line integer counted from 1

---@class efim_ls.Page
---@field lines string[]
---@field marks { row: integer, col: integer, last: integer, group: string }[] from 0, as extmarks count
---@field fold integer[]? first and last of the lines that are shown as one until they are opened, counted from 1
---@field sources table<integer, efim_ls.Source> by line, counted from 1

---@return efim_ls.Page
function M.new()
  return { lines = {}, marks = {}, sources = {} }
end

--- Begin a line with a text, which may go on over several lines.
---@param page efim_ls.Page
---@param text string?
---@param group string?
---@return integer its number, counted from 1
function M.line(page, text, group)
  page.lines[#page.lines + 1] = ""
  local number = #page.lines
  M.add(page, text or "", group)
  return number
end

--- Continue the last line with a text, which may go on over several lines.
---@param page efim_ls.Page
---@param text string
---@param group string?
function M.add(page, text, group)
  for index, part in ipairs(vim.split(text:gsub("\r", ""), "\n", { plain = true })) do
    if index > 1 then
      page.lines[#page.lines + 1] = ""
    end
    local row = #page.lines
    local col = #page.lines[row]
    page.lines[row] = page.lines[row] .. part
    if group and part ~= "" then
      page.marks[#page.marks + 1] = { row = row - 1, col = col, last = col + #part, group = group }
    end
  end
end

--- Leave a line blank, unless the last one is.
---@param page efim_ls.Page
function M.gap(page)
  if #page.lines > 0 and page.lines[#page.lines] ~= "" then
    M.line(page)
  end
end

--- Show a page in a buffer, in place of its text.
---@param page efim_ls.Page
---@param buf integer
function M.show(page, buf)
  vim.bo[buf].modifiable = true
  api.nvim_buf_set_lines(buf, 0, -1, false, page.lines)
  vim.bo[buf].modifiable = false
  api.nvim_buf_clear_namespace(buf, M.namespace, 0, -1)
  for _, mark in ipairs(page.marks) do
    local place = { end_col = mark.last, hl_group = mark.group }
    api.nvim_buf_set_extmark(buf, M.namespace, mark.row, mark.col, place)
  end
end

--- Close a page's fold in the window that shows it.
---@param page efim_ls.Page
---@param win integer
function M.fold(page, win)
  vim.wo[win].foldmethod, vim.wo[win].foldenable = "manual", true
  api.nvim_win_call(win, function()
    vim.cmd("normal! zE")
    if page.fold then
      vim.cmd.fold({ range = page.fold })
    end
  end)
end

return M
