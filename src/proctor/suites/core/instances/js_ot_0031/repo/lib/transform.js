"use strict";

const { Builder, OperationError } = require("./operation");
const { Reader } = require("./reader");

function transform(a, b) {
  return [rebase(a, b), rebase(b, a)];
}

/** The operation, for the text that the other one makes. */
function rebase(op, other) {
  const [own, others] = [new Reader(op), new Reader(other)];
  const result = new Builder();
  for (;;) {
    if (own.isInsertion) {
      result.add(own.take());
    } else if (others.isInsertion) {
      result.add(others.take().length);
    } else if (own.part === undefined && others.part === undefined) {
      return result.parts;
    } else if (own.part === undefined || others.part === undefined) {
      throw new OperationError("the operations were not made for the same text");
    } else {
      const length = Math.min(own.length, others.length);
      const [one, theirs] = [own.take(length), others.take(length)];
      if (theirs > 0) {
        result.add(one);
      }
    }
  }
}

module.exports = { transform };
