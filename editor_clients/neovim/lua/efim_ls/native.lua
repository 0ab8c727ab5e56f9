--- Suggestions in Neovim 0.12, drawn and selected by its own inline completion.
---
--- Its requests become ours. It asks 200 ms after a key, shows an answer whatever was typed meanwhile, and keeps it
--- even if something else was typed. We ask at once, and answer its last request with what fits the text.
local lsp = require("efim_ls.lsp")
local suggestions = require("efim_ls.suggestions")
local inline = vim.lsp.inline_completion
local M = {}

---@param client vim.lsp.Client
---@param left efim_ls.Left[]
local function items_at_cursor(client, left)
  local here = lsp.position(client)
  return vim.tbl_map(function(each)
    return { insertText = each.text, range = { start = here, ["end"] = here }, command = each.item.command }
  end, left)
end

---@param client vim.lsp.Client
function M.connect(client)
  lsp.intercept(client, lsp.INLINE, function(params, answer, buf)
    suggestions.draw_with(buf, function(left)
      if client.attached_buffers[buf] then
        local context = { method = lsp.INLINE, client_id = client.id, bufnr = buf, params = params }
        answer(nil, { items = items_at_cursor(client, left) }, context)
      end
    end)
    suggestions.ask(buf, params.context.triggerKind)
  end)
end

---@param buf integer
function M.is_enabled(buf)
  return inline.is_enabled({ bufnr = buf })
end

function M.enable()
  if not inline.is_enabled() then
    inline.enable()
  end
end

---@param buf integer
---@param count integer
---@return boolean
function M.select(buf, count)
  local hint = suggestions.select(buf, count)
  inline.select({ bufnr = buf, count = count })
  return hint ~= nil
end

return M
