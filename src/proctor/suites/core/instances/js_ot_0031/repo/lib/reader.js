"use strict";

/** Goes through the parts of an operation, in pieces as small as needed. */
class Reader {
  #parts;
  #index = 0;
  #rest = null; // what is left of the present part

  constructor(op) {
    this.#parts = op;
  }

  /** The present part, or what is left of it; undefined at the end. */
  get part() {
    return this.#rest ?? this.#parts[this.#index];
  }

  get isInsertion() {
    return typeof this.part === "string";
  }

  get isDeletion() {
    return typeof this.part === "number" && this.part < 0;
  }

  /** How many characters the present part is about; Infinity at the end. */
  get length() {
    const { part } = this;
    if (part === undefined) {
      return Infinity;
    }
    return typeof part === "string" ? part.length : Math.abs(part);
  }

  /** Takes so many characters of the present part, or all. */
  take(length = this.length) {
    const { part } = this;
    if (length >= this.length) {
      this.#rest = null;
      this.#index += 1;
      return part;
    }
    if (typeof part === "string") {
      this.#rest = part.slice(length);
      return part.slice(0, length);
    }
    this.#rest = this.length - length;
    return Math.sign(part) * length;
  }
}

module.exports = { Reader };
