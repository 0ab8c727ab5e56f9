--- What the server answers, as text for people.
local M = {}

---@return boolean
local function is_set(value)
  return value ~= nil and value ~= vim.NIL
end

---@param share number?
local function percent(share)
  return is_set(share) and ("%d %%"):format(math.floor(share * 100 + 0.5)) or "-"
end

---@param counters table
local function of_suggestions(counters)
  return ("%d shown, %d accepted, %d in part, rate %s; %s of the accepted characters kept"):format(
    counters.shown,
    counters.accepted,
    counters.partially_accepted,
    percent(counters.acceptance_rate),
    percent(counters.kept_rate)
  )
end

---@param costs table
local function of_tokens(costs)
  return ("%d tokens reused, %d recomputed"):format(costs.reused, costs.recomputed)
end

--- Return the state, what runs, and the last answer.
---@param status table
---@return string[]
function M.status(status)
  local lines = { "# efim-ls: " .. status.state, "" }
  if is_set(status.message) and status.message ~= "" then
    lines[#lines + 1] = "- " .. status.message
  end
  if is_set(status.notice) then
    lines[#lines + 1] = "- " .. status.notice
  end
  for _, name in ipairs({ "model", "device" }) do
    if is_set(status[name]) then
      lines[#lines + 1] = ("- %s: %s"):format(name, status[name])
    end
  end
  if is_set(status.last) then
    lines[#lines + 1] = ("- last answer: %.1f ms, %s"):format(status.last.ms, of_tokens(status.last))
  end
  if is_set(status.counters) then
    lines[#lines + 1] = "- suggestions: " .. of_suggestions(status.counters)
  end
  return lines
end

---@param stats table
---@return string[]
function M.stats(stats)
  local lines = { "# efim-ls since the server started", "", ("- requests: %d"):format(stats.requests) }
  for outcome, count in vim.spairs(stats.answered) do
    lines[#lines + 1] = ("  - %s: %d"):format(outcome, count)
  end
  vim.list_extend(lines, { "- suggestions: " .. of_suggestions(stats), "- " .. of_tokens(stats.tokens) })
  if is_set(stats.ms.p50) then
    lines[#lines + 1] = ("- answers: %.1f ms (median), %.1f ms (95th percentile)"):format(stats.ms.p50, stats.ms.p95)
  end
  return lines
end

---@param lines string[]
---@param title string
---@param text string
local function add_part(lines, title, text)
  local fence = "~~~~"
  vim.list_extend(lines, { "", ("## %s: %d characters"):format(title, vim.fn.strchars(text)), fence })
  vim.list_extend(lines, vim.split(text, "\n", { plain = true }))
  lines[#lines + 1] = fence
end

--- Add what is shown and, apart from it, what is hidden, with the probability of each word.
---@param lines string[]
---@param suggestion table
local function add_suggestion(lines, suggestion)
  local place, shown, hidden = 0, {}, {}
  for _, each in ipairs(suggestion.words) do
    local word, probability = unpack(each)
    local part = place < #suggestion.shown and shown or hidden
    part[#part + 1] = ("`%s` %s"):format(vim.trim(word), percent(probability))
    place = place + #word
  end
  for _, part in ipairs({ { "shown", suggestion.shown, shown }, { "hidden", suggestion.hidden, hidden } }) do
    if part[2] ~= "" then
      add_part(lines, part[1], part[2])
      vim.list_extend(lines, { "", table.concat(part[3], ", ") })
    end
  end
  if suggestion.hidden ~= "" then
    vim.list_extend(lines, { "", "What is hidden is shown once it is likely enough (min_confidence), or by key." })
  end
  if #suggestion.words > 0 then
    vim.list_extend(lines, { "", "The figures say how likely each word is, if all before it is right." })
  end
end

--- Return what is suggested or why nothing is, and what the model reads, in its order.
---@param explained table
---@return string[]
function M.explanation(explained)
  local asked = "the model is asked here; its last answer was a suggestion"
  local notice = is_set(explained.notice) and explained.notice
  local why = is_set(explained.why) and explained.why or notice or asked
  local lines = { "# efim-ls at the cursor", "", why, "", "Cost of a suggestion here: " .. of_tokens(explained.costs) }
  if is_set(explained.suggestion) then
    add_suggestion(lines, explained.suggestion)
  end
  for _, name in ipairs({ "head", "tail", "typed", "rest" }) do
    if explained[name] ~= "" then
      add_part(lines, name, explained[name])
    end
  end
  return lines
end

return M
