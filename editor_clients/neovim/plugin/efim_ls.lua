if vim.g.loaded_efim_ls then
  return
end
vim.g.loaded_efim_ls = true

vim.api.nvim_create_user_command("Efim", function(command)
  require("efim_ls.commands").run(command.fargs[1])
end, {
  nargs = "?",
  desc = "efim-ls: run a subcommand, or show them all",
  complete = function(start)
    return require("efim_ls.commands").names(start)
  end,
})

local edit_verbs = { jump = "jump", accept = "accept", refuse = "refuse", [""] = "jump_or_accept" }
vim.api.nvim_create_user_command("EfimNextEdit", function(command)
  local verb = edit_verbs[command.args]
  if not verb then
    vim.notify("efim-ls: there is no :EfimNextEdit " .. command.args .. ". Use jump, accept or refuse", vim.log.levels.ERROR)
  elseif not require("efim_ls.next_edit")[verb]() then
    vim.notify("efim-ls: no next edit is shown. Change something that is to be changed elsewhere, too")
  end
end, {
  nargs = "?",
  desc = "efim-ls: go to the next edit, make it, or refuse it",
  complete = function(start)
    return vim.tbl_filter(function(verb)
      return verb ~= "" and vim.startswith(verb, start)
    end, { "accept", "jump", "refuse" })
  end,
})

local group = vim.api.nvim_create_augroup("efim_ls", {})
vim.api.nvim_create_autocmd("LspAttach", {
  group = group,
  callback = function(event)
    local client = vim.lsp.get_client_by_id(event.data.client_id)
    if client and client.name == "efim_ls" then
      require("efim_ls.attach").attach(client, event.buf)
    end
  end,
})
vim.api.nvim_create_autocmd("FileType", {
  group = group,
  once = true,
  callback = function()
    require("efim_ls.server").check_enabled()
  end,
})
