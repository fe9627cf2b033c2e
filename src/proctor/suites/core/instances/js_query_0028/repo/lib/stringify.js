"use strict";

/** Unpaired surrogates have no encoding; they become the replacement character. */
function encode(text) {
  return encodeURIComponent(text.replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd")).replace(
    /[!'()*]/g,
    (char) => "%" + char.charCodeAt(0).toString(16).toUpperCase(),
  );
}

function plain(value) {
  if (value === null) {
    return "";
  }
  return value instanceof Date ? value.toISOString() : String(value);
}

function write(name, value, pairs) {
  if (value === undefined || typeof value === "function" || typeof value === "symbol") {
    return;
  }
  if (Array.isArray(value)) {
    for (const item of value) {
      write(name + "[]", item, pairs);
    }
  } else if (typeof value === "object" && value !== null && !(value instanceof Date)) {
    for (const key of Object.keys(value)) {
      write(`${name}[${key}]`, value[key], pairs);
    }
  } else {
    pairs.push(`${name}=${encode(plain(value))}`);
  }
}

function stringify(object) {
  const pairs = [];
  for (const key of Object.keys(object)) {
    write(key, object[key], pairs);
  }
  return pairs.join("&");
}

module.exports = { stringify };
