--- A next edit as extmarks: removed text is struck through, and new text stands next to it.
local api = vim.api
local M = {}

M.namespace = api.nvim_create_namespace("efim_ls.next_edit")
api.nvim_set_hl(0, "EfimEditOld", { default = true, link = "DiffDelete" })
api.nvim_set_hl(0, "EfimEditNew", { default = true, link = "DiffAdd" })
api.nvim_set_hl(0, "EfimEditHint", { default = true, link = "MoreMsg" })

---@class efim_ls.Range 0-based, in bytes
---@field row integer
---@field col integer
---@field end_row integer
---@field end_col integer

function M.hide()
  for _, buf in ipairs(api.nvim_list_bufs()) do
    api.nvim_buf_clear_namespace(buf, M.namespace, 0, -1)
  end
end

--- Draw an edit of a buffer at its place.
---@param buf integer
---@param range efim_ls.Range
---@param text string
function M.show(buf, range, text)
  if range.row ~= range.end_row or range.col ~= range.end_col then
    api.nvim_buf_set_extmark(buf, M.namespace, range.row, range.col, {
      end_row = range.end_row,
      end_col = range.end_col,
      hl_group = "EfimEditOld",
    })
  end
  if text == "" then
    return
  end
  local tab = (" "):rep(vim.bo[buf].tabstop) -- virtual text has no tab stops
  local chunks = {}
  for line in vim.gsplit(text:gsub("\t", tab), "\n", { plain = true }) do
    chunks[#chunks + 1] = { { line, "EfimEditNew" } }
  end
  api.nvim_buf_set_extmark(buf, M.namespace, range.end_row, range.end_col, {
    virt_text = chunks[1],
    virt_text_pos = "inline",
    virt_lines = vim.list_slice(chunks, 2),
    right_gravity = false,
  })
end

--- Say at the end of the cursor's line where the edit is.
---@param hint string
function M.hint(hint)
  local row = api.nvim_win_get_cursor(0)[1] - 1
  api.nvim_buf_set_extmark(0, M.namespace, row, 0, { virt_text = { { hint, "EfimEditHint" } }, virt_text_pos = "eol" })
end

return M
