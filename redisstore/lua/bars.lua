-- barred tells whether the owner gave up for good: only late copies of its requests can still arrive.
local function barred(bars, owner)
  return redis.call('ZSCORE', bars, owner)
end

