--- Suggestions in Neovim 0.10 and 0.11, which have no inline completion built in.
local ghost = require("efim_ls.ghost")
local suggestions = require("efim_ls.suggestions")
local M = {}

---@param buf integer
function M.connect(_, buf)
  suggestions.draw_with(buf, function(left)
    if left[1] then
      ghost.show(buf, left[1].text)
    else
      ghost.hide(buf)
    end
  end)
end

function M.is_enabled()
  return true
end

function M.enable() end

---@param buf integer
---@param count integer
---@return boolean
function M.select(buf, count)
  local hint = suggestions.select(buf, count)
  if hint then
    ghost.show(buf, suggestions.left(buf)[1].text, hint)
  end
  return hint ~= nil
end

return M
