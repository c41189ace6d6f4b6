-- Asks Enfilade whether a request is permitted, before HAProxy passes it on. Sets these variables of the transaction:
--   txn.enfilade_status   200 if the request is permitted; 401, 403 or 503 if it is not
--   txn.enfilade_user, txn.enfilade_groups, txn.enfilade_roles   the visitor; empty if everybody may send the request

local SOCKET = "unix@@SOCKET@"
local URL = "http://enfilade/decide/haproxy"
local APPLICATION = "@APPLICATION@"
-- Longer than Enfilade delays the answer to a wrong password (10 s).
local TIMEOUT_MS = 15000
-- HAProxy 2.6 fails if a question has more headers than `tune.http.maxhdr` (101).
local VALUES_MAX = 40

-- The headers that Enfilade reads. All headers with `_` are passed on, too: some applications read `_` as `-`, so Enfilade refuses some of them.
local READ = {
    ["authorization"] = true, ["x-auth-token"] = true, ["destination"] = true, ["depth"] = true, ["origin"] = true,
    ["upgrade"] = true, ["sec-websocket-key"] = true, ["sec-websocket-version"] = true,
    ["access-control-request-method"] = true, ["x-http-method-override"] = true, ["x-http-method"] = true,
    ["x-method-override"] = true, ["x-original-url"] = true, ["x-rewrite-url"] = true, ["x-forwarded-prefix"] = true,
    ["x-request-id"] = true,
}

-- All values of a header, in their order. HAProxy counts them from 0.
local function values(lines)
    local all, at = {}, 0
    while lines[at] ~= nil do
        all[at + 1] = lines[at]
        at = at + 1
    end
    return all
end

local function refuse(txn, status)
    txn:set_var("txn.enfilade_status", status)
    txn:set_var("txn.enfilade_user", "")
    txn:set_var("txn.enfilade_groups", "")
    txn:set_var("txn.enfilade_roles", "")
end

core.register_action("enfilade", { "http-req" }, function(txn)
    -- Until Enfilade permits the request, it is refused. An error in this script leaves it refused.
    refuse(txn, 403)
    local all, headers, count = txn.http:req_get_headers(), {}, 0
    for name, lines in pairs(all) do
        if READ[name] or string.find(name, "_", 1, true) then
            headers[name] = values(lines)
            count = count + #headers[name]
        end
    end
    if count > VALUES_MAX then
        return refuse(txn, 403)
    end
    headers["x-forwarded-method"] = { txn.f:method() }
    headers["x-forwarded-proto"] = { txn.f:ssl_fc() and txn.f:ssl_fc() ~= 0 and "https" or "http" }
    headers["x-forwarded-host"] = all["host"] and values(all["host"]) or {}
    -- The path as the client sent it, not decoded: HAProxy passes the same path on.
    headers["x-forwarded-uri"] = { txn.f:pathq() }
    headers["x-forwarded-for"] = { txn.f:src() }
    headers["x-enfilade-application"] = { APPLICATION }
    local answer = core.httpclient():get({ url = URL, headers = headers, dst = SOCKET, timeout = TIMEOUT_MS })
    if answer == nil or answer.status == nil or answer.status == 0 or answer.status >= 500 then
        return refuse(txn, 503)
    end
    if answer.status ~= 200 then
        return refuse(txn, answer.status == 401 and 401 or 403)
    end
    local function first(name)
        local lines = answer.headers[name]
        return lines and lines[0] or ""
    end
    txn:set_var("txn.enfilade_user", first("remote-user"))
    txn:set_var("txn.enfilade_groups", first("remote-groups"))
    txn:set_var("txn.enfilade_roles", first("remote-roles"))
    txn:set_var("txn.enfilade_status", 200)
end)
