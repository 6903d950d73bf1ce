-- Neovim: open the file of $GPULINT_FILE, take the quick fix of GPU301 at its place, save; tell in $GPULINT_LOG.
local SECONDS = 60
local log = {}

local function tell(key, value)
  log[key] = value
  vim.fn.writefile({ vim.json.encode(log) }, vim.env.GPULINT_LOG)
end

local function codes()
  local found = {}
  for _, item in ipairs(vim.diagnostic.get(0)) do
    table.insert(found, item.code or item.user_data.lsp.code)
  end
  return found
end

local function wait(what, condition)
  if not vim.wait(SECONDS * 1000, condition, 50) then
    tell('missed', what)
    vim.cmd('cquit')
  end
end

local function has(code)
  return vim.tbl_contains(codes(), code)
end

vim.ui.select = function(items, options, choose)
  for _, item in ipairs(items) do
    local action = item.action or item[2]
    if action.isPreferred then
      tell('title', action.title)
      return choose(item)
    end
  end
end

vim.cmd('edit ' .. vim.env.GPULINT_FILE)
local client = vim.lsp.start_client({
  name = 'gpulint',
  cmd = vim.json.decode(vim.env.GPULINT_COMMAND),
  root_dir = vim.fn.getcwd(),
})
vim.lsp.buf_attach_client(0, client)
wait('a diagnostic', function() return has('GPU301') end)
tell('before', codes())
for _, item in ipairs(vim.diagnostic.get(0)) do
  if (item.code or item.user_data.lsp.code) == 'GPU301' then
    tell('shown', vim.fn.strcharpart(vim.fn.getline(item.lnum + 1), 0, 200):sub(item.col + 1, item.end_col))
    vim.api.nvim_win_set_cursor(0, { item.lnum + 1, item.col })
  end
end
vim.lsp.buf.code_action({ only = { 'quickfix' } })
wait('the fix', function() return vim.bo.modified end)
wait('the end of the diagnostic', function() return not has('GPU301') end)
tell('after', codes())
vim.cmd('write')
vim.lsp.stop_client(client)
wait('the end of the server', function() return vim.lsp.client_is_stopped(client) end)
tell('done', true)
vim.cmd('qall!')
