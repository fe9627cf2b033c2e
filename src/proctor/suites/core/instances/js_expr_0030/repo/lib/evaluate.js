"use strict";

const { FormulaError } = require("./errors");

const FUNCTIONS = new Map([
  ["abs", Math.abs],
  ["max", Math.max],
  ["min", Math.min],
  ["round", Math.round],
  ["sqrt", Math.sqrt],
]);

const CALCULATE = {
  "==": (a, b) => Number(a === b),
  "!=": (a, b) => Number(a !== b),
  "<": (a, b) => Number(a < b),
  "<=": (a, b) => Number(a <= b),
  ">": (a, b) => Number(a > b),
  ">=": (a, b) => Number(a >= b),
  "+": (a, b) => a + b,
  "-": (a, b) => a - b,
  "*": (a, b) => a * b,
  "/": (a, b) => a / b,
  "%": (a, b) => a % b,
  "^": (a, b) => a ** b,
};

function evaluate(tree, values = {}) {
  switch (tree.type) {
    case "number":
      return tree.value;
    case "name":
      if (!Object.hasOwn(values, tree.name)) {
        throw new FormulaError(`unknown name ${tree.name}`, 0);
      }
      return values[tree.name];
    case "call": {
      const call = FUNCTIONS.get(tree.name);
      if (call === undefined) {
        throw new FormulaError(`unknown function ${tree.name}`, 0);
      }
      return call(...tree.args.map((arg) => evaluate(arg, values)));
    }
    case "unary": {
      const value = evaluate(tree.arg, values);
      return tree.op === "-" ? -value : Number(value === 0);
    }
    case "choice":
      return evaluate(evaluate(tree.test, values) !== 0 ? tree.then : tree.otherwise, values);
    default: {
      const left = evaluate(tree.left, values);
      if (tree.op === "&&" || tree.op === "||") {
        const right = evaluate(tree.right, values);
        return Number(tree.op === "&&" ? left !== 0 && right !== 0 : left !== 0 || right !== 0);
      }
      return CALCULATE[tree.op](left, evaluate(tree.right, values));
    }
  }
}

module.exports = { evaluate };
