"use strict";

/** How tight operators bind. */
const BINARY = new Map();
const LEVELS = [["||"], ["&&"], ["==", "!=", "<", "<=", ">", ">="], ["+", "-"], ["*", "/", "%"], ["^"]];
LEVELS.forEach((level, index) => {
  for (const op of level) {
    BINARY.set(op, { tightness: index + 1 });
  }
});

const CHOICE = 0;
const UNARY = LEVELS.length + 1;
const OPERAND = LEVELS.length + 2;

module.exports = { BINARY, CHOICE, OPERAND, UNARY };
