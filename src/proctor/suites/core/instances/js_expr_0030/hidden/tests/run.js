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

function values(table, names = {}) {
  for (const [text, value] of Object.entries(table)) {
    assert.equal(evaluate(parse(text), names), value, text);
  }
}

function formats(table) {
  for (const [text, expected] of Object.entries(table)) {
    assert.equal(format(parse(text)), expected, text);
    assert.deepStrictEqual(parse(expected), parse(text), text);
  }
}

function fails(text, position) {
  assert.throws(() => parse(text), (error) => error instanceof FormulaError && (position === undefined || error.position === position), text);
}

const name = (letter) => ({ type: "name", name: letter });
const number = (value) => ({ type: "number", value });
const binary = (op, left, right) => ({ type: "binary", op, left, right });
const unary = (op, arg) => ({ type: "unary", op, arg });
const choice = (test_, then, otherwise) => ({ type: "choice", test: test_, then, otherwise });

test("arithmetic", () => {
  values({ "1 + 2 * 3": 7, "(1 + 2) * 3": 9, "7 - 2 - 1": 4, "8 / 4 / 2": 1, "7 % 4": 3, "100 / (4 * 5)": 5, ".5 + 1.5e1": 15.5, "2*-3": -6 });
});

test("names and functions", () => {
  values({ "x + y2": 5, "max(x, y2, 1)": 3, "abs(-x)": 2, "sqrt(16) + min(1, 2)": 5, "round(2.6)": 3 }, { x: 2, y2: 3 });
  assert.throws(() => evaluate(parse("z")), FormulaError);
  assert.throws(() => evaluate(parse("toString")), FormulaError);
  assert.throws(() => evaluate(parse("f(1)")), FormulaError);
});

test("comparisons and logic", () => {
  values({ "1 < 2": 1, "2 <= 1": 0, "1 == 1 && 2 != 3": 1, "0 || 5": 1, "5 && 0": 0, "!5": 0, "!0 + 1": 2, "1 + 1 == 2": 1, "0 && 1 || 1": 1 });
});

test("choices", () => {
  values({ "1 ? 2 : 3": 2, "0 ? 2 : 3": 3, "0 ? 1 : 0 ? 2 : 3": 3, "1 ? 0 ? 4 : 5 : 6": 5, "1 > 2 ? 3 : 4 + 1": 5, "-1 ? 2 : 3": 2 });
});

test("powers group to the right", () => {
  values({ "2 ^ 3 ^ 2": 512, "2 ^ 2 ^ 0 ^ 5": 2, "(2 ^ 3) ^ 2": 64, "2 * 3 ^ 2": 18, "2 ^ 3 * 2": 16 });
});

test("a minus in front of a power", () => {
  values({ "-2 ^ 2": -4, "(-2) ^ 2": 4, "2 ^ -1": 0.5, "2 ^ -2 ^ 2": 1 / 16, "-2 ^ -2": -0.25, "--2 ^ 2": 4, "3 - -2 ^ 2": 7, "2 * -3 ^ 2": -18, "-x ^ 2 * 2": -18 }, { x: 3 });
  values({ "!0 ^ 0": 0, "!2 == 0": 1, "-2 * 3": -6 });
});

test("comparisons do not follow each other", () => {
  fails("1 < x < 3", 6);
  fails("a == b != c", 7);
  fails("a < b + 1 >= c", 10);
  fails("x ? a == b == c : d", 11);
  values({ "(1 < 2) == 1": 1, "1 < 2 && 2 < 3": 1, "1 == (2 > 3)": 0, "1 < 2 ? 3 < 4 : 0": 1, "max(1 < 2, 0) < 2": 1 });
});

test("only what is needed is calculated", () => {
  values({ "x != 0 && 1 / f > 2": 0, "x == 0 || f": 1, "x ? f : 1": 1, "0 && f || 1": 1, "1 || f && g": 1, "0 ? f : 1 ? 2 : g": 2 }, { x: 0 });
  assert.throws(() => evaluate(parse("1 && f")), FormulaError);
  assert.throws(() => evaluate(parse("0 || f")), FormulaError);
});

test("errors have a position", () => {
  fails("", 0);
  fails("1 +", 3);
  fails("1 + * 2", 4);
  fails("(1", 2);
  fails("1)", 1);
  fails("1 2", 2);
  fails("f(1,)", 4);
  fails("a ? b", 5);
  fails("  #", 2);
  fails("1 = 2", 2);
  fails("a & b", 2);
  fails("2 ^", 3);
  fails("1 ? : 2", 4);
});

test("no parentheses that are not needed", () => {
  formats({
    "((a*b))+(c)": "a * b + c",
    "(a-b)-c": "a - b - c",
    "(a/b)*c": "a / b * c",
    "a^(b^c)": "a ^ b ^ c",
    "a+(b*c)": "a + b * c",
    "a||(b&&c)": "a || b && c",
    "(a<b)&&(c==d)": "a < b && c == d",
    "(a||b)?(c):(d?e:f)": "a || b ? c : d ? e : f",
    "a?(b?c:d):e": "a ? b ? c : d : e",
    "max((a),(b+c))": "max(a, b + c)",
    "f()": "f()",
    "(-a)*b": "-a * b",
    "-(a^b)": "-a ^ b",
    "a*(-b)": "a * -b",
    "a-(-b)": "a - -b",
    "-(-a)": "--a",
    "!(-a)": "!-a",
    "a^(-b)": "a ^ -b",
    "a^(-(b^c))": "a ^ -b ^ c",
    "(a^-b)*c": "a ^ -b * c",
    "(1.50)": "1.5",
    "1e3": "1000",
  });
});

test("parentheses on the right of operators that group to the left", () => {
  formats({
    "a - (b - c)": "a - (b - c)",
    "a - (b + c)": "a - (b + c)",
    "a + (b - c)": "a + (b - c)",
    "a + (b + c)": "a + (b + c)",
    "100 / (4 * 5)": "100 / (4 * 5)",
    "a % (b % c)": "a % (b % c)",
    "a && (b && c)": "a && (b && c)",
    "a || (b || c)": "a || (b || c)",
    "a - (b - (c - d))": "a - (b - (c - d))",
  });
});

test("parentheses around powers", () => {
  formats({
    "(a ^ b) ^ c": "(a ^ b) ^ c",
    "(a + b) ^ (c * d)": "(a + b) ^ (c * d)",
    "(-a) ^ b": "(-a) ^ b",
    "(!a) ^ b": "(!a) ^ b",
    "a ^ (-b) ^ c": "a ^ (-b) ^ c",
    "(a ^ -b) ^ c": "(a ^ -b) ^ c",
    "-(-a) ^ b": "-(-a) ^ b",
    "-(a * b)": "-(a * b)",
    "-(a + b) ^ c": "-(a + b) ^ c",
  });
});

test("parentheses around comparisons and choices", () => {
  formats({
    "(a < b) < c": "(a < b) < c",
    "a == (b == c)": "a == (b == c)",
    "(a || b) && c": "(a || b) && c",
    "!(a && b)": "!(a && b)",
    "!(a < b)": "!(a < b)",
    "(a ? b : c) ? d : e": "(a ? b : c) ? d : e",
    "(a ? b : c) + d": "(a ? b : c) + d",
    "-(a ? b : c)": "-(a ? b : c)",
    "a + (b ? c : d)": "a + (b ? c : d)",
    "f(a ? b : c, (d))": "f(a ? b : c, d)",
  });
});

test("negative numbers in trees", () => {
  const cases = [
    [binary("^", number(-2), number(2)), "(-2) ^ 2", 4],
    [binary("^", number(2), number(-2)), "2 ^ -2", 0.25],
    [binary("-", number(1), number(-2)), "1 - -2", 3],
    [binary("*", number(-2), number(3)), "-2 * 3", -6],
    [unary("-", number(-2)), "--2", 2],
    [unary("-", binary("^", number(-2), number(2))), "-(-2) ^ 2", -4],
    [binary("^", number(-1e-7), number(3)), "(-1e-7) ^ 3", -1e-21],
    [binary("+", number(1e21), number(-0.5)), "1e+21 + -0.5", 1e21],
  ];
  for (const [tree, text, value] of cases) {
    assert.equal(format(tree), text);
    assert.equal(evaluate(parse(text)), value, text);
    assert.equal(evaluate(tree), value, text);
  }
});

test("trees are not changed by being written", () => {
  const tree = binary("-", name("a"), binary("-", name("b"), number(-1)));
  const copy = JSON.stringify(tree);
  format(tree);
  format(tree);
  assert.equal(JSON.stringify(tree), copy);
});

/** All trees with up to so many operators, over a few operators of each kind. */
function* trees(size) {
  if (size === 0) {
    yield name("a");
    return;
  }
  for (const inner of trees(size - 1)) {
    yield unary("-", inner);
  }
  for (let left = 0; left < size; left += 1) {
    for (const one of trees(left)) {
      for (const other of trees(size - 1 - left)) {
        for (const op of ["||", "<", "-", "/", "^"]) {
          yield binary(op, one, other);
        }
      }
    }
  }
  if (size <= 2) {
    for (const inner of trees(size - 1)) {
      yield choice(inner, name("b"), name("c"));
      yield choice(name("b"), inner, name("c"));
      yield choice(name("b"), name("c"), inner);
    }
  }
}

test("every small tree is read back", () => {
  for (let size = 0; size <= 3; size += 1) {
    for (const tree of trees(size)) {
      const text = format(tree);
      assert.equal(JSON.stringify(parse(text)), JSON.stringify(tree), text);
    }
  }
});

test("in every small tree all parentheses are needed", () => {
  for (let size = 0; size <= 3; size += 1) {
    for (const tree of trees(size)) {
      const text = format(tree);
      for (let open = text.indexOf("("); open >= 0; open = text.indexOf("(", open + 1)) {
        let depth = 0;
        let close = open;
        do {
          depth += text[close] === "(" ? 1 : text[close] === ")" ? -1 : 0;
          close += 1;
        } while (depth > 0);
        const shorter = text.slice(0, open) + text.slice(open + 1, close - 1) + text.slice(close);
        let again = null;
        try {
          again = JSON.stringify(parse(shorter));
        } catch {
          // A formula without them cannot be read at all: so they are needed.
        }
        assert.notEqual(again, JSON.stringify(tree), text);
      }
    }
  }
});

console.log(`1..${count}`);
