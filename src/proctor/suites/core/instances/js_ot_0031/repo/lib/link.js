"use strict";

/** Messages on their way, in order; they arrive when they are told to. */
class Link {
  #waiting = [];

  send(deliver) {
    this.#waiting.push(deliver);
  }

  get length() {
    return this.#waiting.length;
  }

  /** Lets the next message arrive; says whether there was one. */
  deliver() {
    const message = this.#waiting.shift();
    message?.();
    return message !== undefined;
  }
}

module.exports = { Link };
