if vim.g.loaded_efim_ls then
  return
end
vim.g.loaded_efim_ls = true

vim.api.nvim_create_user_command("Efim", function(command)
  require("efim_ls.commands").run(command.fargs[1])
end, {
  nargs = 1,
  desc = "efim-ls: run a subcommand",
  complete = function(start)
    return require("efim_ls.commands").names(start)
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
