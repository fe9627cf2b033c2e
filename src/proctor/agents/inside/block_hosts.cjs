// Loaded into an agent's program before its own code, for one that reports to its makers and has no switch for that: hosts
// whose names are in AGENT_BLOCKED_HOSTS, or end with one of them, cannot be reached, and are not even looked up.
"use strict";
const { syncBuiltinESMExports } = require("node:module");

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

for (const scheme of ["http", "https"]) {
  const module = require("node:" + scheme);
  for (const method of ["request", "get"]) {
    const real = module[method];
    module[method] = function (given, ...rest) {
      // Nobody listens at this address: the request fails as one without a network does.
      return real.call(module, isBlocked(given) ? scheme + "://127.0.0.1:0/" : given, ...rest);
    };
  }
}
syncBuiltinESMExports();
