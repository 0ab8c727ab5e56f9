return require("efim_ls.server").config
