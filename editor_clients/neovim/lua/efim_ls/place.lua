--- A place in the current buffer, with its line: the text itself tells whether it is still there.
local api = vim.api
local M = {}

---@class efim_ls.Place
---@field row integer from 0
---@field col integer bytes
---@field before string the line up to it
---@field after string the rest of the line

---@return efim_ls.Place
function M.here()
  local row, col = unpack(api.nvim_win_get_cursor(0))
  local line = api.nvim_get_current_line()
  return { row = row - 1, col = col, before = line:sub(1, col), after = line:sub(col + 1) }
end

--- Return a key that differs between places, and between texts at the same place.
---@param buf integer
---@param at efim_ls.Place
function M.key(buf, at)
  return ("%d:%d:%d"):format(api.nvim_buf_get_changedtick(buf), at.row, at.col)
end

--- Return the text between a place and the cursor; nil if anything else has changed on their lines.
---@param from efim_ls.Place
---@return string?
function M.typed_since(from)
  local now = M.here()
  if now.after ~= from.after or now.row < from.row or (now.row == from.row and now.col < from.col) then
    return nil
  end
  local first = api.nvim_buf_get_lines(0, from.row, from.row + 1, false)[1]
  if not vim.startswith(first, from.before) then
    return nil
  end
  return table.concat(api.nvim_buf_get_text(0, from.row, from.col, now.row, now.col, {}), "\n")
end

--- Insert a text at a place of the current buffer; the cursor stays behind text that was typed there since.
---@param at efim_ls.Place
---@param text string
---@return boolean false where anything else has changed on that line
function M.insert(at, text)
  local line = api.nvim_buf_get_lines(0, at.row, at.row + 1, false)[1]
  if not line or not vim.startswith(line, at.before) or not vim.endswith(line, at.after) then
    return false
  end
  local row, col = unpack(api.nvim_win_get_cursor(0))
  local lines = vim.split(text, "\n", { plain = true })
  api.nvim_buf_set_text(0, at.row, at.col, at.row, at.col, lines)
  local typed = row - 1 == at.row and col - at.col or 0
  local start = #lines == 1 and at.col or 0
  api.nvim_win_set_cursor(0, { at.row + #lines, math.max(start + #lines[#lines] + typed, 0) })
  return true
end

return M
