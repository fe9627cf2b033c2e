// Loaded into an agent's program before its own code, for one that reports to its makers and has no switch for that: hosts
// whose names are in AGENT_BLOCKED_HOSTS, or end with one of them, cannot be reached, and are not even looked up.
"use strict";
const { syncBuiltinESMExports } = require("node:module");
const { Writable } = require("node:stream");

const blocked = process.env.AGENT_BLOCKED_HOSTS.split(" ");
delete process.env.AGENT_BLOCKED_HOSTS;

function hostOf(given) {
  if (given && typeof given === "object" && !(given instanceof URL)) {
    if (typeof given.url !== "string") return given.hostname ?? given.host ?? "";
    given = given.url;
  }
  return URL.canParse(String(given)) ? new URL(String(given)).hostname : "";
}

function isBlocked(given) {
  const host = String(hostOf(given)).toLowerCase().split(":")[0];
  return blocked.some((name) => host === name || host.endsWith("." + name));
}

function unreachable(given) {
  const text = `connect ENETUNREACH ${hostOf(given)}`;
  return Object.assign(new Error(text), { code: "ENETUNREACH", errno: -101, syscall: "connect" });
}

const { fetch } = globalThis;
globalThis.fetch = Object.assign(async function (given, ...rest) {
  if (isBlocked(given)) throw unreachable(given);
  return fetch(given, ...rest);
}, fetch);

/** A request that fails as one without a network does; nothing is connected to for it. */
function failedRequest(given) {
  const request = new Writable({ write: (chunk, encoding, done) => done() });
  for (const name of ["setTimeout", "setHeader", "setNoDelay", "setSocketKeepAlive", "flushHeaders"])
    request[name] = () => request;
  request.abort = () => request.destroy();
  process.nextTick(() => request.destroy(unreachable(given)));
  return request;
}

for (const name of ["node:http", "node:https"]) {
  const module = require(name);
  for (const method of ["request", "get"]) {
    const real = module[method];
    module[method] = function (given, ...rest) {
      return isBlocked(given) ? failedRequest(given) : real.call(module, given, ...rest);
    };
  }
}
syncBuiltinESMExports();
