"use strict";
// Prints TAP.

const assert = require("node:assert");
const { Client, Server, apply, compose, invert, transform } = require("../lib");

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

test("apply and invert", () => {
  const op = ["Hi ", 3, -2];
  assert.equal(apply("abcde", op), "Hi abc");
  assert.equal(apply("Hi abc", invert(op, "abcde")), "abcde");
});

test("compose", () => {
  assert.deepEqual(compose([3, "x"], ["y", 4]), ["y", 3, "x"]);
});

test("transform", () => {
  assert.deepEqual(transform(["x", 3], [3, "y"]), [["x", 4], [4, "y"]]);
});

test("one client after the other", () => {
  const server = new Server("abc");
  const [one, other] = [new Client(server), new Client(server)];
  one.edit([3, "d"]);
  one.toServer.deliver();
  while (one.fromServer.deliver() || other.fromServer.deliver());
  other.edit([-1, 3]);
  other.toServer.deliver();
  while (one.fromServer.deliver() || other.fromServer.deliver());
  assert.deepEqual([server.text, one.text, other.text], ["bcd", "bcd", "bcd"]);
});

console.log(`1..${count}`);
