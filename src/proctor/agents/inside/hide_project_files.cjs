// Loaded into an agent's program before its own code: what the task's repository would configure it with is not there.
//
// AGENT_HIDDEN has `folders`, of which nothing can be read, and `files`, of which `access` says that they are not there,
// and which can be read. Both are names, looked for in the working directory, above and below it, and nowhere in the
// folder that the variable `own` names: it is the program's.
"use strict";
const fs = require("node:fs");
const path = require("node:path");
const { fileURLToPath } = require("node:url");
const { syncBuiltinESMExports } = require("node:module");

const hidden = JSON.parse(process.env.AGENT_HIDDEN);
delete process.env.AGENT_HIDDEN;
// With which Bun was told to load this: the commands that the program runs are not to.
delete process.env.BUN_OPTIONS;
delete process.env.BUN_INSPECT_PRELOAD;
const workdirs = [process.cwd(), fs.realpathSync(process.cwd())];
const own = [process.env[hidden.own], __dirname].map((folder) => [folder, fs.realpathSync(folder)]).flat();

const isBelow = (target, folder) => target === folder || target.startsWith(folder === "/" ? "/" : folder + "/");

function pathOf(given) {
  if (given instanceof URL) return given.protocol === "file:" ? fileURLToPath(given) : null;
  return typeof given === "string" || Buffer.isBuffer(given) ? path.resolve(String(given)) : null;
}

/** Whether the path is one of these names, or below one of them, and the repository's. */
function isHidden(given, names) {
  const target = pathOf(given);
  if (target === null || own.some((folder) => isBelow(target, folder))) return false;
  const parts = target.split("/");
  return parts.some((part, index) => {
    if (!names.includes(part)) return false;
    const folder = parts.slice(0, index).join("/") || "/";
    return workdirs.some((workdir) => isBelow(workdir, folder) || isBelow(folder, workdir));
  });
}

function missing(name, given) {
  const text = `ENOENT: no such file or directory, ${name} '${given}'`;
  return Object.assign(new Error(text), { code: "ENOENT", errno: -2, syscall: name, path: String(given) });
}

function hide(name, names) {
  const real = { sync: fs[name + "Sync"], callback: fs[name], promise: fs.promises[name] };
  if (real.sync)
    fs[name + "Sync"] = Object.assign(function (given, ...rest) {
      if (!isHidden(given, names)) return real.sync.call(fs, given, ...rest);
      if (rest[0]?.throwIfNoEntry === false) return undefined;
      throw missing(name, given);
    }, real.sync);
  if (real.callback)
    fs[name] = Object.assign(function (given, ...rest) {
      if (!isHidden(given, names)) return real.callback.call(fs, given, ...rest);
      process.nextTick(rest.at(-1), missing(name, given));
    }, real.callback);
  if (real.promise)
    fs.promises[name] = async function (given, ...rest) {
      if (isHidden(given, names)) throw missing(name, given);
      return real.promise.call(fs.promises, given, ...rest);
    };
}

for (const name of ["readFile", "stat", "lstat", "readdir", "opendir", "open", "realpath"]) hide(name, hidden.folders);
hide("access", [...hidden.folders, ...hidden.files]);
const exists = fs.existsSync;
fs.existsSync = (given) => !isHidden(given, hidden.folders) && exists(given);
syncBuiltinESMExports();
