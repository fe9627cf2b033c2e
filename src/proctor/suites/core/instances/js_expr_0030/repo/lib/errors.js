"use strict";

class FormulaError extends Error {
  constructor(message, position) {
    super(`${message} at ${position}`);
    this.name = "FormulaError";
    this.position = position;
  }
}

module.exports = { FormulaError };
