"use strict";
// Prints TAP.

const assert = require("node:assert");
const { parse, stringify } = require("../lib");

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

test("plain pairs", () => {
  assert.deepEqual({ ...parse("?a=1&b=two") }, { a: "1", b: "two" });
});

test("nested", () => {
  assert.deepEqual(JSON.parse(JSON.stringify(parse("u[name]=Ada&u[l][]=fr&u[l][]=en"))), { u: { name: "Ada", l: ["fr", "en"] } });
});

test("stringify", () => {
  assert.equal(stringify({ page: 2, user: { name: "Ada", langs: ["fr"] } }), "page=2&user[name]=Ada&user[langs][]=fr");
});

console.log(`1..${count}`);
