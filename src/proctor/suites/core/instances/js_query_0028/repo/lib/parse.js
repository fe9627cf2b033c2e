"use strict";

const MAX_DEPTH = 8;

/** The path of a name: its plain beginning, and then a key, or null for "[]", per bracket. */
function pathOf(name) {
  const open = name.indexOf("[");
  if (open <= 0) {
    return [name];
  }
  const path = [name.slice(0, open)];
  let rest = name.slice(open);
  while (rest !== "") {
    const bracket = /^\[([^[\]]*)\]/.exec(rest);
    if (bracket === null || path.length > MAX_DEPTH) {
      return [name];
    }
    path.push(bracket[1] === "" ? null : bracket[1]);
    rest = rest.slice(bracket[0].length);
  }
  return path;
}

/** Puts a value into a container under the rest of a path. */
function put(container, key, rest, value) {
  if (rest.length === 0) {
    if (Array.isArray(container)) {
      container.push(value);
    } else {
      container[key] = value;
    }
    return;
  }
  if (container[key] === undefined) {
    container[key] = rest[0] === null ? [] : {};
  }
  put(container[key], rest[0], rest.slice(1), value);
}

function parse(text) {
  const result = {};
  for (const pair of decodeURIComponent(text).replace(/^\?/, "").split("&")) {
    const [name, value] = pair.split("=");
    const [key, ...rest] = pathOf(name);
    put(result, key, rest, value || "");
  }
  return result;
}

module.exports = { parse };
