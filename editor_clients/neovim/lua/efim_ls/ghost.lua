--- Ghost text as extmarks, for versions of Neovim that draw none.
local api = vim.api
local M = {}

M.namespace = api.nvim_create_namespace("efim_ls.ghost")
api.nvim_set_hl(0, "EfimGhost", { default = true, link = "Comment" })
api.nvim_set_hl(0, "EfimGhostMore", { default = true, link = "MoreMsg" })

---@param buf integer
function M.hide(buf)
  if api.nvim_buf_is_valid(buf) then
    api.nvim_buf_clear_namespace(buf, M.namespace, 0, -1)
  end
end

--- Several lines cover the rest of the cursor's line, which is drawn again after the last of them.
---@param chunks table[][] one list of chunks a line
---@param rest string what stands right of the cursor
local function cover(chunks, rest)
  local width = vim.fn.strdisplaywidth(rest) - vim.fn.strdisplaywidth(chunks[1][1][1])
  chunks[1][1][1] = chunks[1][1][1] .. (" "):rep(width)
  table.insert(chunks[#chunks], 2, { rest, "EfimGhost" })
end

---@param buf integer
---@param text string
---@param hint string? such as "(2/3)"
function M.show(buf, text, hint)
  M.hide(buf)
  local row, col = unpack(api.nvim_win_get_cursor(0))
  local chunks = {}
  local tab = (" "):rep(vim.bo[buf].tabstop) -- virtual text has no tab stops
  for line in vim.gsplit(text:gsub("\t", tab), "\n", { plain = true }) do
    chunks[#chunks + 1] = { { line, "EfimGhost" } }
  end
  local rest = api.nvim_get_current_line():sub(col + 1)
  local covers = #chunks > 1 and rest ~= ""
  if covers then
    cover(chunks, rest)
  end
  if hint then
    table.insert(chunks[#chunks], { " " .. hint, "EfimGhostMore" })
  end
  api.nvim_buf_set_extmark(buf, M.namespace, row - 1, col, {
    virt_text = chunks[1],
    virt_text_pos = covers and "overlay" or "inline",
    virt_lines = vim.list_slice(chunks, 2),
    hl_mode = "combine",
  })
end

return M
