--- How much of a text is accepted at once.
local M = {}

--- Return blanks and a word as `w` moves over it: letters, or punctuation.
---@param text string
---@return string
function M.word(text)
  local word = vim.fn.matchstr(text, [[^\_s*\%(\k\+\|\%(\k\@!\S\)\+\)]])
  return word ~= "" and word or text
end

--- Return the rest of a line; at a line's end, the whole next one.
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

--- Count UTF-16 units: two for a code point that takes four bytes in UTF-8, else one.
---@param text string
---@return integer
function M.utf16_length(text)
  local _, points = text:gsub("[^\128-\191]", "")
  local _, large = text:gsub("[\240-\247]", "")
  return points + large
end

return M
