"use strict";
// Prints TAP.

const assert = require("node:assert");
const { FormulaError, evaluate, format, parse } = require("../lib");

let count = 0;

function test(name, body) {
  count += 1;
  try {
    body();
    console.log(`ok ${count} - ${name}`);
  } catch (error) {
    console.log(`not ok ${count} - ${name}`);
    console.log(String(error.message).replace(/^/gm, "# "));
  }
}

test("evaluate", () => {
  assert.equal(evaluate(parse("1 + 2 * 3")), 7);
  assert.equal(evaluate(parse("2 * (x + 1) ^ 2"), { x: 3 }), 32);
  assert.equal(evaluate(parse("x > 1 ? max(x, 5) : 0"), { x: 3 }), 5);
});

test("format", () => {
  assert.equal(format(parse("((a*b))+(c)")), "a * b + c");
  assert.equal(format(parse("(a+b)*c")), "(a + b) * c");
});

test("errors", () => {
  assert.throws(() => parse("1 + * 2"), (error) => error instanceof FormulaError && error.position === 4);
});

console.log(`1..${count}`);
