"use strict";

const { BINARY, CHOICE, OPERAND, UNARY } = require("./operators");

/** How tight a tree holds together when it is written. */
function tightnessOf(tree) {
  switch (tree.type) {
    case "choice":
      return CHOICE;
    case "binary":
      return BINARY.get(tree.op).tightness;
    case "unary":
      return UNARY;
    default:
      return OPERAND;
  }
}

/** The text of a tree, in parentheses if it does not hold together as tight as needed. */
function within(tree, tightness) {
  return tightnessOf(tree) < tightness ? `(${format(tree)})` : format(tree);
}

function binary({ op, left, right }) {
  const { tightness } = BINARY.get(op);
  return `${within(left, tightness)} ${op} ${within(right, tightness)}`;
}

function format(tree) {
  switch (tree.type) {
    case "number":
      return String(tree.value);
    case "name":
      return tree.name;
    case "call":
      return `${tree.name}(${tree.args.map(format).join(", ")})`;
    case "unary":
      return tree.op + within(tree.arg, UNARY);
    case "choice":
      return `${format(tree.test)} ? ${format(tree.then)} : ${format(tree.otherwise)}`;
    default:
      return binary(tree);
  }
}

module.exports = { format };
