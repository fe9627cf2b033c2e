"use strict";

const { OperationError, apply } = require("./operation");
const { transform } = require("./transform");

class Server {
  #clients = new Set();

  constructor(text = "") {
    this.text = text;
    this.history = [];
  }

  get revision() {
    return this.history.length;
  }

  join(client) {
    this.#clients.add(client);
  }

  leave(client) {
    this.#clients.delete(client);
  }

  receive(from, revision, op) {
    if (!(revision >= 0 && revision <= this.revision)) {
      throw new OperationError(`there is no revision ${revision}`);
    }
    let current = op;
    for (const earlier of this.history.slice(revision)) {
      [, current] = transform(earlier, current);
    }
    this.text = apply(this.text, current);
    this.history.push(op);
    for (const client of this.#clients) {
      if (client === from) {
        client.fromServer.send(() => client.acknowledge());
      } else {
        client.fromServer.send(() => client.receive(current));
      }
    }
  }
}

module.exports = { Server };
