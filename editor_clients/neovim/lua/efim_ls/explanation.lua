--- Paints the sections of an explanation as a page; each colour is explained in words as well.
local pages = require("efim_ls.page")
local M = {}

local GROUPS = {
  kept = "EfimKept",
  ahead = "EfimAhead",
  disk = "EfimDisk",
  recomputed = "EfimRecomputed",
  model = "EfimModel",
  file = "EfimFile",
  repository = "EfimRepository",
  hidden = "EfimHidden",
  note = "EfimHidden",
}
local LINKS = {
  EfimKept = "DiagnosticOk",
  EfimAhead = "DiagnosticHint",
  EfimDisk = "DiagnosticInfo",
  EfimRecomputed = "DiagnosticWarn",
  EfimModel = "DiagnosticInfo",
  EfimFile = "DiagnosticOk",
  EfimRepository = "DiagnosticWarn",
  EfimHidden = "Comment",
  EfimHeading = "Title",
  EfimSource = "Underlined",
}
for group, target in pairs(LINKS) do
  vim.api.nvim_set_hl(0, group, { default = true, link = target })
end

---@class efim_ls.Span
---@field text string
---@field style string?
---@field path string? of the file that it links to
---@field line integer? in that file, counted from 1

---@class efim_ls.Section
---@field title string
---@field kind "status"|"lines"|"table"|"text"|"prompt"|"folded"
---@field rows efim_ls.Span[][] with a cell in each span of a table's row

---@param span efim_ls.Span
---@return string its text, with the path as Neovim shows it
local function shown(span)
  return span.path and ("%s:%d"):format(vim.fn.fnamemodify(span.path, ":~:."), span.line) or span.text
end

--- Continue the last line with a span.
---@param page efim_ls.Page
---@param span efim_ls.Span
local function add_span(page, span)
  pages.add(page, shown(span), span.path and "EfimSource" or GROUPS[span.style])
  if span.path then
    page.sources[#page.lines] = { path = span.path, line = span.line }
  end
end

---@param rows efim_ls.Span[][]
---@return integer[] the width of each column but the last, in cells of the screen
local function widths(rows)
  local found = {}
  for _, row in ipairs(rows) do
    for column = 1, #row - 1 do
      found[column] = math.max(found[column] or 0, vim.fn.strdisplaywidth(shown(row[column])))
    end
  end
  return found
end

--- Continue the last line with a row of a table; figures, between the first and the last column, end together.
---@param page efim_ls.Page
---@param row efim_ls.Span[]
---@param columns integer[]
local function add_cells(page, row, columns)
  for column, span in ipairs(row) do
    local pad = (" "):rep((columns[column] or 0) - vim.fn.strdisplaywidth(shown(span)))
    pages.add(page, column > 1 and column <= #columns and pad or "")
    add_span(page, span)
    pages.add(page, (column == 1 and #row > 1 and pad or "") .. (column < #row and "  " or ""))
  end
end

---@param page efim_ls.Page
---@param section efim_ls.Section
local function add_section(page, section)
  local columns = section.kind == "table" and widths(section.rows)
  local folded = section.kind == "folded"
  pages.gap(page)
  local first = #page.lines
  if section.title ~= "" then
    first = pages.line(page, section.title .. (folded and " (zo opens, zc closes)" or ""), "EfimHeading")
  end
  for _, row in ipairs(section.rows) do
    pages.line(page)
    if columns then
      add_cells(page, row, columns)
    end
    for _, span in ipairs(columns and {} or row) do
      add_span(page, span)
    end
  end
  page.fold = folded and { first, #page.lines } or page.fold
end

--- Return a page with all sections.
---@param sections efim_ls.Section[]
---@return efim_ls.Page
function M.page(sections)
  local page = pages.new()
  for _, section in ipairs(sections) do
    add_section(page, section)
  end
  return page
end

return M
