-- `print(1)` on a sandbox by wrk, with every body checked: only right answers are counted.
--
--     wrk -t1 -c8 -d5 -s bench/print.lua http://127.0.0.1:8002/v1/execute

wrk.method = "POST"
wrk.body = '{"code": "print(1)"}'
wrk.headers["content-type"] = "application/json"

local threads = {}

function setup(thread)
  table.insert(threads, thread)
end

function init()
  num_right, num_others = 0, 0
end

function response(status, headers, body)
  local accepted = body:find('"status":"accepted"', 1, true)
  if status == 200 and accepted and body:find('"stdout":"1\\n"', 1, true) then
    num_right = num_right + 1
  else
    num_others = num_others + 1
  end
end

function done(summary, latency)
  local right, others = 0, 0
  for _, thread in ipairs(threads) do
    right = right + thread:get("num_right")
    others = others + thread:get("num_others")
  end
  local p50_ms, p99_ms = latency:percentile(50) / 1000, latency:percentile(99) / 1000
  local per_s = right / (summary.duration / 1e6)
  print(string.format("%.0f right/s, %d not right, p50 %.2f ms, p99 %.2f ms", per_s, others, p50_ms, p99_ms))
end
