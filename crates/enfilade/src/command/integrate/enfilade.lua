-- Asks Enfilade whether a request is permitted, before HAProxy passes it on. Sets these variables of the transaction:
--   txn.enfilade_status   200 if the request is permitted; 401, 403 or 503 if it is not
--   txn.enfilade_user, txn.enfilade_groups, txn.enfilade_roles   who the visitor is; empty for a public path

local SOCKET = "unix@@SOCKET@"
local URL = "http://enfilade/decide/haproxy"

-- Headers that belong to the connection, or that describe a body. The question has no body.
local DROPPED = {
    ["connection"] = true, ["content-length"] = true, ["expect"] = true, ["host"] = true, ["keep-alive"] = true,
    ["proxy-connection"] = true, ["te"] = true, ["trailer"] = true, ["transfer-encoding"] = true,
    ["x-forwarded-method"] = true, ["x-forwarded-proto"] = true, ["x-forwarded-host"] = true,
    ["x-forwarded-uri"] = true, ["x-forwarded-for"] = true,
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
    local headers = {}
    for name, lines in pairs(txn.http:req_get_headers()) do
        if not DROPPED[name] then
            headers[name] = values(lines)
        end
    end
    local hosts = txn.http:req_get_headers()["host"]
    headers["x-forwarded-method"] = { txn.f:method() }
    headers["x-forwarded-proto"] = { txn.f:ssl_fc() and txn.f:ssl_fc() ~= 0 and "https" or "http" }
    headers["x-forwarded-host"] = hosts and values(hosts) or {}
    -- The path as the client sent it, not decoded: HAProxy passes the same path on.
    headers["x-forwarded-uri"] = { txn.f:pathq() }
    headers["x-forwarded-for"] = { txn.f:src() }
    local answer = core.httpclient():get({ url = URL, headers = headers, dst = SOCKET, timeout = 5000 })
    if answer == nil or answer.status == nil or answer.status == 0 then
        return refuse(txn, 503)
    end
    if answer.status ~= 200 then
        local passed = { [401] = true, [503] = true }
        return refuse(txn, passed[answer.status] and answer.status or 403)
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
