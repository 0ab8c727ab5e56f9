--- What explains a suggestion, as a page: each colour is told in words as well.
local pages = require("efim_ls.page")
local report = require("efim_ls.report")
local M = {}

local SPEAKERS = { model = "EfimModel", file = "EfimFile", repository = "EfimRepository" }
local COSTS = { kept = "EfimKept", ahead = "EfimAhead", disk = "EfimDisk", recomputed = "EfimRecomputed" }
local ORDER = { "kept", "ahead", "disk", "recomputed" }
local PARTS = {
  signatures = "signatures: those that the workspace uses most",
  imports = "imports: what this file imports",
  head = "head: before the lines you work on",
  tail = "tail: after the cursor's line",
  similar = "similar: last edits, and similar code",
  typed = "typed: from there to the cursor",
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

local is_set, percent = report.is_set, report.percent

--- Return who said most of a word, nil if that is not known.
---@param word table
local function speaker(word)
  local found, most = nil, 0
  for _, name in ipairs({ "model", "file", "repository" }) do
    if is_set(word[name]) and word[name] > most then
      found, most = name, word[name]
    end
  end
  return found
end

---@param page efim_ls.Page
---@param word table
---@param hidden boolean
local function add_word(page, word, hidden)
  local name, text = speaker(word), vim.trim(word.text:gsub("\n", "↵"))
  local shares = ("%6s %6s %6s %6s  "):format(
    percent(word.probability),
    percent(word.model),
    percent(word.file),
    percent(word.repository)
  )
  pages.line(page, shares .. (text == "" and word.text or text), hidden and "EfimHidden" or SPEAKERS[name])
  if is_set(word.source) then
    pages.line(page, (" "):rep(31) .. word.source)
  end
  for _, source in ipairs(word.from) do
    pages.line(page, (" "):rep(31))
    pages.add(page, ("%s:%d"):format(vim.fn.fnamemodify(source.path, ":~:."), source.line), "EfimSource")
    page.sources[#page.lines] = source
  end
end

---@param page efim_ls.Page
---@param suggestion table
local function add_suggestion(page, suggestion)
  local place = 0
  pages.gap(page)
  pages.line(page, suggestion.shown == "" and "What would have been suggested" or "What is suggested", "EfimHeading")
  pages.line(page, #suggestion.words == 0 and suggestion.shown .. suggestion.hidden or "")
  for _, word in ipairs(suggestion.words) do
    pages.add(page, word.text, place < #suggestion.shown and SPEAKERS[speaker(word)] or "EfimHidden")
    place = place + #word.text
  end
  pages.gap(page)
end

--- Say something of the place, and what else there is to know about suggestions in such a file.
---@param page efim_ls.Page
---@param explained table
local function add_outcome(page, explained)
  local notice = is_set(explained.notice)
  if is_set(explained.why) then
    pages.line(page, "No suggestion: " .. explained.why)
    return
  elseif is_set(explained.suggestion) then
    pages.line(page, "This is what was suggested here.")
  else
    pages.line(page, notice and "Nothing was suggested here yet." or "The model is asked here.")
  end
  if notice then
    pages.line(page, explained.notice)
  end
end

---@param page efim_ls.Page
---@param suggestion table
local function add_speakers(page, suggestion)
  local place = 0
  pages.gap(page)
  pages.line(page, "Who says it", "EfimHeading")
  pages.line(page, "  sure  model   file  repository")
  for _, word in ipairs(suggestion.words) do
    if place == #suggestion.shown and suggestion.hidden ~= "" then
      pages.line(page, "hidden, until it is likely enough (suggestions), or shown by key:", "EfimHidden")
    end
    add_word(page, word, place >= #suggestion.shown)
    place = place + #word.text
  end
end

---@param page efim_ls.Page
---@param explained table
local function add_costs(page, explained)
  local tokens = {}
  for _, part in ipairs(explained.parts) do
    tokens[part.cost] = (tokens[part.cost] or 0) + part.tokens
  end
  local spent = is_set(explained.spent)
  pages.gap(page)
  pages.line(page, "What the model reads, and what that costs", "EfimHeading")
  pages.line(page, spent and "The answer here, in tokens: " or "A suggestion here would cost, in tokens: ")
  for index, cost in ipairs(ORDER) do
    pages.add(page, index > 1 and ", " or "")
    pages.add(page, ("%s %d"):format(cost, tokens[cost] or 0), COSTS[cost])
  end
end

---@param page efim_ls.Page
---@param parts table[]
local function add_parts(page, parts)
  local before
  for _, part in ipairs(parts) do
    if PARTS[part.part] then
      local begins = part.part ~= before
      if begins then
        pages.gap(page)
        pages.line(page, ("-- %s "):format(PARTS[part.part]), "EfimHeading")
      end
      pages.add(page, ("[%s %d]"):format(part.cost, part.tokens), "EfimHidden")
      if begins then
        pages.line(page)
      end
      pages.add(page, part.text, COSTS[part.cost])
      before = part.part
    end
  end
end

---@param page efim_ls.Page
---@param parts table[]
local function add_prompt(page, parts)
  local before
  pages.gap(page)
  local first = pages.line(page, "-- the whole prompt, with its markers (zo opens, zc closes)", "EfimHeading")
  pages.line(page)
  for _, part in ipairs(parts) do
    if part.cost ~= before then
      pages.add(page, ("[%s]"):format(part.cost), "EfimHidden")
    end
    pages.add(page, part.text, COSTS[part.cost])
    before = part.cost
  end
  page.fold = { first, #page.lines }
end

--- Say which edit is offered, by which rule and from which edits.
---@param page efim_ls.Page
---@param edit table
local function add_next_edit(page, edit)
  local function said(each)
    local name = vim.fn.fnamemodify(vim.uri_to_fname(each.uri), ":~:.")
    local place = is_set(each.line) and ("%s:%d"):format(name, each.line) or name
    local removed, added = each.removed:gsub("\n", "↵"), each.added:gsub("\n", "↵")
    return ("%s  %s -> %s"):format(place, removed, added)
  end
  pages.gap(page)
  pages.line(page, "The next edit", "EfimHeading")
  pages.line(page, said(edit))
  pages.line(page, ("by the rule %q, which is right in %s, from:"):format(edit.rule, percent(edit.confidence)))
  for _, past in ipairs(edit.because) do
    pages.line(page, "  " .. said(past))
  end
end

--- Return what is suggested or why nothing is, and what the model reads, in its order.
---@param explained table
---@param title string
---@return efim_ls.Page
function M.page(explained, title)
  local page = pages.new()
  local suggestion = is_set(explained.suggestion) and explained.suggestion
  pages.line(page, "efim-ls at " .. title, "EfimHeading")
  if suggestion then
    add_suggestion(page, suggestion)
  end
  add_outcome(page, explained)
  if suggestion and #suggestion.words > 0 then
    add_speakers(page, suggestion)
  end
  if is_set(explained.next_edit) then
    add_next_edit(page, explained.next_edit)
  end
  if #explained.parts > 0 then
    add_costs(page, explained)
    add_parts(page, explained.parts)
  end
  if explained.rest ~= "" then
    pages.gap(page)
    pages.line(page, "-- rest of the line, which the model does not read", "EfimHeading")
    pages.line(page, explained.rest, "EfimHidden")
  end
  if #explained.parts > 0 then
    add_prompt(page, explained.parts)
  end
  return page
end

return M
