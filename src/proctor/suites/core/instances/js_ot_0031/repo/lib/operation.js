"use strict";

class OperationError extends Error {}

/** Collects the parts of an operation, and keeps it tidy. */
class Builder {
  parts = [];

  add(part) {
    if (part === 0 || part === "") {
      return this;
    }
    const { parts } = this;
    const last = parts.length - 1;
    if (typeof part === "string") {
      if (typeof parts[last] === "string") {
        parts[last] += part;
      } else {
        parts.push(part);
      }
    } else if (typeof parts[last] === "number" && parts[last] > 0 === part > 0) {
      parts[last] += part;
    } else {
      parts.push(part);
    }
    return this;
  }
}

function apply(text, op) {
  let position = 0;
  let result = "";
  for (const part of op) {
    if (typeof part === "string") {
      result += part;
      continue;
    }
    const end = position + Math.abs(part);
    if (end > text.length) {
      throw new OperationError(`the operation goes beyond the end of the text (${text.length})`);
    }
    if (part > 0) {
      result += text.slice(position, end);
    }
    position = end;
  }
  if (position !== text.length) {
    throw new OperationError(`the operation ends at ${position}, the text at ${text.length}`);
  }
  return result;
}

function invert(op, text) {
  const inverse = new Builder();
  let position = 0;
  for (const part of op) {
    if (typeof part === "string") {
      inverse.add(-part.length);
    } else {
      const end = position + Math.abs(part);
      inverse.add(part > 0 ? part : text.slice(position, end));
      position = end;
    }
  }
  return inverse.parts;
}

module.exports = { Builder, OperationError, apply, invert };
