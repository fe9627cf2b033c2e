"use strict";

const { compose } = require("./compose");
const { Link } = require("./link");
const { apply } = require("./operation");
const { transform } = require("./transform");

class Client {
  #server;
  #sent = null; // not acknowledged yet
  #waiting = null; // edited since then

  constructor(server) {
    this.#server = server;
    this.text = server.text;
    this.revision = server.revision;
    this.toServer = new Link();
    this.fromServer = new Link();
    server.join(this);
  }

  /** Whether everything that was edited here is known to the server. */
  get isSettled() {
    return this.#sent === null;
  }

  edit(op) {
    this.text = apply(this.text, op);
    if (this.#sent === null) {
      this.#send(op);
    } else {
      this.#waiting = this.#waiting === null ? op : compose(this.#waiting, op);
    }
  }

  receive(op) {
    let current = op;
    for (const own of [this.#sent, this.#waiting]) {
      if (own !== null) {
        [current] = transform(current, own);
      }
    }
    this.text = apply(this.text, current);
    this.revision += 1;
  }

  acknowledge() {
    this.revision += 1;
    this.#sent = null;
    if (this.#waiting !== null) {
      const op = this.#waiting;
      this.#waiting = null;
      this.#send(op);
    }
  }

  #send(op) {
    const { revision } = this;
    this.#sent = op;
    this.toServer.send(() => this.#server.receive(this, revision, op));
  }
}

module.exports = { Client };
