"use strict";

const { checkTopic, matches } = require("./topics");

class Herald {
  #listeners = new Map(); // pattern -> functions

  get size() {
    let size = 0;
    for (const list of this.#listeners.values()) {
      size += list.length;
    }
    return size;
  }

  on(pattern, listener, { first = false } = {}) {
    checkTopic(pattern);
    if (typeof listener !== "function") {
      throw new TypeError("a listener is a function");
    }
    if (!this.#listeners.has(pattern)) {
      this.#listeners.set(pattern, []);
    }
    const list = this.#listeners.get(pattern);
    if (first) {
      list.unshift(listener);
    } else {
      list.push(listener);
    }
    return () => this.off(pattern, listener);
  }

  once(pattern, listener, options) {
    const wrapper = (payload, topic) => {
      listener(payload, topic);
      this.off(pattern, wrapper);
    };
    return this.on(pattern, wrapper, options);
  }

  off(pattern, listener) {
    const list = this.#listeners.get(pattern) ?? [];
    const index = list.lastIndexOf(listener);
    if (index >= 0) {
      list.splice(index, 1);
    }
    return index >= 0;
  }

  emit(topic, payload) {
    checkTopic(topic);
    let called = 0;
    for (const [pattern, list] of this.#listeners) {
      if (!matches(pattern, topic)) {
        continue;
      }
      for (const listener of list) {
        called += 1;
        listener(payload, topic);
      }
    }
    return called;
  }

  next(pattern, { signal } = {}) {
    return new Promise((resolve, reject) => {
      this.once(pattern, (payload, topic) => resolve([payload, topic]));
      signal?.addEventListener("abort", () => reject(signal.reason));
    });
  }
}

module.exports = { Herald };
