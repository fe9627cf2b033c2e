"use strict";

const { FormulaError } = require("./errors");
const { BINARY } = require("./operators");

const TOKEN = /\s*(?:((?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|([A-Za-z_]\w*)|(\|\||&&|[=!<>]=|[-+*/%^!<>?:(),])|$)/y;

function tokenize(text) {
  const tokens = [];
  TOKEN.lastIndex = 0;
  for (;;) {
    const start = TOKEN.lastIndex;
    const match = TOKEN.exec(text);
    if (match === null) {
      const position = start + /^\s*/.exec(text.slice(start))[0].length;
      throw new FormulaError(`unexpected ${JSON.stringify(text[position])}`, position);
    }
    const [, number, name, sign] = match;
    const content = number ?? name ?? sign ?? "";
    const position = TOKEN.lastIndex - content.length;
    if (content === "") {
      tokens.push({ kind: "end", text: "the end", position });
      return tokens;
    }
    tokens.push({ kind: number !== undefined ? "number" : name !== undefined ? "name" : "sign", text: content, position });
  }
}

class Parser {
  constructor(text) {
    this.tokens = tokenize(text);
    this.index = 0;
  }

  get token() {
    return this.tokens[this.index];
  }

  unexpected() {
    return new FormulaError(`unexpected ${this.token.text}`, this.token.position);
  }

  accept(sign) {
    if (this.token.kind !== "sign" || this.token.text !== sign) {
      return false;
    }
    this.index += 1;
    return true;
  }

  expect(sign) {
    if (!this.accept(sign)) {
      throw this.unexpected();
    }
  }

  formula() {
    const test = this.binary(1);
    if (!this.accept("?")) {
      return test;
    }
    const then = this.formula();
    this.expect(":");
    return { type: "choice", test, then, otherwise: this.formula() };
  }

  /** Operators that bind at least this tight. */
  binary(tightness) {
    let left = this.unary();
    for (;;) {
      const operator = this.token.kind === "sign" ? BINARY.get(this.token.text) : undefined;
      if (operator === undefined || operator.tightness < tightness) {
        return left;
      }
      const op = this.token.text;
      this.index += 1;
      left = { type: "binary", op, left, right: this.binary(operator.tightness + 1) };
    }
  }

  unary() {
    for (const op of ["-", "!"]) {
      if (this.accept(op)) {
        return { type: "unary", op, arg: this.unary() };
      }
    }
    return this.operand();
  }

  operand() {
    const { kind, text } = this.token;
    if (this.accept("(")) {
      const inner = this.formula();
      this.expect(")");
      return inner;
    }
    if (kind !== "number" && kind !== "name") {
      throw this.unexpected();
    }
    this.index += 1;
    if (kind === "number") {
      return { type: "number", value: Number(text) };
    }
    return this.accept("(") ? { type: "call", name: text, args: this.args() } : { type: "name", name: text };
  }

  args() {
    const args = [];
    if (this.accept(")")) {
      return args;
    }
    do {
      args.push(this.formula());
    } while (this.accept(","));
    this.expect(")");
    return args;
  }
}

function parse(text) {
  const parser = new Parser(text);
  const tree = parser.formula();
  if (parser.token.kind !== "end") {
    throw parser.unexpected();
  }
  return tree;
}

module.exports = { parse };
