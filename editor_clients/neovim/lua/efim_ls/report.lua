--- What the server answers, as text for people.
local M = {}

---@return boolean
function M.is_set(value)
  return value ~= nil and value ~= vim.NIL
end

---@param share number?
function M.percent(share)
  return M.is_set(share) and ("%d %%"):format(math.floor(share * 100 + 0.5)) or "-"
end

local TELLING = 10 -- accepted suggestions, of which a share tells something

---@param counters table
local function of_suggestions(counters)
  local accepted, in_part = counters.accepted, counters.partially_accepted
  local said = ("%d shown, %d accepted, %d in part"):format(counters.shown, accepted, in_part)
  if accepted + in_part < TELLING then
    return said
  end
  local rate, kept = M.percent(counters.acceptance_rate), M.percent(counters.kept_rate)
  return ("%s, rate %s; %s of the accepted characters kept"):format(said, rate, kept)
end

---@param costs table
local function of_tokens(costs)
  return ("%d tokens reused, %d recomputed"):format(costs.reused, costs.recomputed)
end

local LANGUAGES = {
  go = "Go",
  more = "Rust, Java, C, C++, Ruby, PHP and shell",
  python = "Python",
  typescript = "TypeScript and JavaScript",
}

--- Return the name of a model for people, by its folder or its name on the hub.
---@param model string
local function model_name(model)
  local language = model:match("[/\\]model_runtime[/\\]embedded[/\\](%w+)$")
  return language and "the embedded model for " .. (LANGUAGES[language] or language) or model
end

--- Return the models of `efim-ls models --json` that can be chosen here; the embedded ones are one choice.
---@param models table[]
---@return table[]
function M.usable(models)
  local has_embedded = false
  return vim.tbl_filter(function(model)
    if model.setting == "" then
      local is_first = not has_embedded
      model.name, has_embedded = "Built in", true
      return is_first
    end
    return not M.is_set(model.problem) and (M.is_set(model.engine) or #model.fits + #model.fits_gpu > 0)
  end, models)
end

--- Return a line about a model: its name, what keys take, its size.
---@param model table
---@return string
function M.model(model)
  local words = { model.name .. (model.recommended and " (recommended)" or ""), model.speed }
  if M.is_set(model.parameters) then
    words[#words + 1] = ("%.0f million parameters"):format(model.parameters / 1e6)
  end
  if M.is_set(model.bytes_on_disk) then
    words[#words + 1] = "on this machine"
  end
  return table.concat(words, ", ")
end

--- Return the state, what runs, and the last answer.
---@param status table
---@return string[]
function M.status(status)
  local lines = { "# efim-ls: " .. status.state, "" }
  if M.is_set(status.message) and status.message ~= "" then
    lines[#lines + 1] = "- " .. status.message
  end
  if M.is_set(status.notice) then
    lines[#lines + 1] = "- " .. status.notice
  end
  if M.is_set(status.model) then
    vim.list_extend(lines, { "- model: " .. model_name(status.model), "- device: " .. status.device })
    if (status.larger or "") ~= "" then
      lines[#lines + 1] = "- larger model, shown where it is surer: " .. model_name(status.larger)
    end
    if (status.remote or "") ~= "" then
      lines[#lines + 1] = "- text is also sent to the model on " .. status.remote
    end
  end
  if M.is_set(status.typical_ms) then
    lines[#lines + 1] = ("- a typical key: %.1f ms"):format(status.typical_ms)
  end
  if M.is_set(status.last) then
    lines[#lines + 1] = ("- last answer: %.1f ms"):format(status.last.ms)
  end
  if M.is_set(status.counters) then
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
  local edits = stats.next_edits
  lines[#lines + 1] = ("- next edits: %d shown, %d accepted, %d kept"):format(edits.shown, edits.accepted, edits.kept)
  if M.is_set(stats.ms.p50) then
    lines[#lines + 1] = ("- a typical key: %.1f ms (median), %.1f ms (95th percentile)"):format(stats.ms.p50, stats.ms.p95)
  end
  return lines
end

return M
