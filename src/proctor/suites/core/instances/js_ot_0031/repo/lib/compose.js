"use strict";

const { Builder, OperationError } = require("./operation");
const { Reader } = require("./reader");

function compose(a, b) {
  const [first, second] = [new Reader(a), new Reader(b)];
  const both = new Builder();
  for (;;) {
    if (first.isDeletion) {
      both.add(first.take());
    } else if (second.isInsertion) {
      both.add(second.take());
    } else if (first.part === undefined && second.part === undefined) {
      return both.parts;
    } else if (first.part === undefined || second.part === undefined) {
      throw new OperationError("the second operation was not made for the result of the first");
    } else {
      const length = Math.min(first.length, second.length);
      const [one, other] = [first.take(length), second.take(length)];
      both.add(other > 0 ? one : other);
    }
  }
}

module.exports = { compose };
