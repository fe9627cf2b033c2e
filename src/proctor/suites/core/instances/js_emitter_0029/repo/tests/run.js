"use strict";
// Prints TAP.

const assert = require("node:assert");
const { Herald } = require("../lib");

const tests = [];
const test = (name, body) => tests.push([name, body]);

test("listeners are called", () => {
  const herald = new Herald();
  const seen = [];
  herald.on("a.b", (payload, topic) => seen.push([payload, topic]));
  assert.equal(herald.emit("a.b", 1), 1);
  assert.equal(herald.emit("a.c", 2), 0);
  assert.deepEqual(seen, [[1, "a.b"]]);
});

test("off", () => {
  const herald = new Herald();
  const off = herald.on("a", () => {});
  off();
  assert.equal(herald.emit("a"), 0);
});

test("next", async () => {
  const herald = new Herald();
  const promise = herald.next("a.*");
  herald.emit("a.b", 5);
  assert.deepEqual(await promise, [5, "a.b"]);
});

(async () => {
  let count = 0;
  for (const [name, body] of tests) {
    count += 1;
    try {
      await body();
      console.log(`ok ${count} - ${name}`);
    } catch (error) {
      console.log(`not ok ${count} - ${name}`);
      console.log(String(error.message).replace(/^/gm, "# "));
    }
  }
  console.log(`1..${count}`);
})();
