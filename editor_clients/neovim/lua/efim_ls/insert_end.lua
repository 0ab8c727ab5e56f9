--- Where insert mode ended: leaving it moves the cursor left of the place where the next letter would have gone.
local api = vim.api
local lsp = require("efim_ls.lsp")
local M = {}

---@class efim_ls.InsertEnd
---@field buf integer
---@field win integer
---@field tick integer the buffer's changedtick
---@field position lsp.Position where the next letter would have gone, in the server's units
---@field rests integer[]? where the cursor rests since insert mode has ended

local ended ---@type efim_ls.InsertEnd? the last one

--- Called while the cursor is still where insert mode ends.
---@param buf integer
function M.leaving(buf)
  local client = lsp.client(buf)
  ended = client
    and {
      buf = buf,
      win = api.nvim_get_current_win(),
      tick = api.nvim_buf_get_changedtick(buf),
      position = lsp.position(client),
    }
end

--- Called once the cursor has moved left.
function M.left()
  if ended then
    ended.rests = api.nvim_win_get_cursor(ended.win)
  end
end

function M.forget()
  ended = nil
end

--- Called when the cursor may have moved: where the user has gone to is the place from then on.
function M.moved()
  if ended and not (ended.rests and vim.deep_equal(ended.rests, api.nvim_win_get_cursor(0))) then
    ended = nil
  end
end

--- Return the place in the current window that the user means: where insert mode ended, as long as the text and the
--- cursor are as they were then, else where the cursor is.
---@param client vim.lsp.Client
---@return lsp.Position
function M.place(client)
  local buf = api.nvim_get_current_buf()
  if
    ended
    and ended.buf == buf
    and ended.win == api.nvim_get_current_win()
    and ended.tick == api.nvim_buf_get_changedtick(buf)
    and vim.deep_equal(ended.rests, api.nvim_win_get_cursor(0))
  then
    return ended.position
  end
  return lsp.position(client)
end

return M
