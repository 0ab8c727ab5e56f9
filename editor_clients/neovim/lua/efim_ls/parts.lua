--- How much of a text is accepted at once.
local M = {}

--- Blanks and a word as `w` takes it: letters, or signs.
---@param text string
---@return string
function M.word(text)
  local word = vim.fn.matchstr(text, [[^\_s*\%(\k\+\|\%(\k\@!\S\)\+\)]])
  return word ~= "" and word or text
end

--- The rest of a line; at a line's end the whole next one.
---@param text string
---@return string
function M.line(text)
  return text:match("^\n*[^\n]*")
end

---@param text string
---@return string
function M.all(text)
  return text
end

--- Units of UTF-16: one a code point, two for those that UTF-8 writes in four bytes.
---@param text string
---@return integer
function M.utf16_length(text)
  local _, points = text:gsub("[^\128-\191]", "")
  local _, large = text:gsub("[\240-\247]", "")
  return points + large
end

return M
