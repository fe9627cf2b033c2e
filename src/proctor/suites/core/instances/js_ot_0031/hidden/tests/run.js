"use strict";
// Prints TAP.

const assert = require("node:assert");
const { Client, Link, OperationError, Server, apply, compose, invert, transform } = require("../lib");

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

function show(...things) {
  return things.map((thing) => JSON.stringify(thing)).join("  ");
}

const kind = (part) => (typeof part === "string" ? "insert" : part > 0 ? "keep" : "delete");

function isTidy(op) {
  return op.every(
    (part, index) =>
      part !== 0 &&
      part !== "" &&
      (index === 0 || (kind(part) !== kind(op[index - 1]) && !(kind(part) === "insert" && kind(op[index - 1]) === "delete"))),
  );
}

/** All operations on a text of this length, with at most one letter inserted in each place. */
function* operations(length, letter) {
  if (length === 0) {
    yield [];
    yield [letter];
    return;
  }
  for (const rest of operations(length - 1, letter)) {
    for (const start of [[], [letter]]) {
      yield tidied([...start, 1, ...rest]);
      yield tidied([...start, -1, ...rest]);
    }
  }
}

/** The same operation, tidy; independent of the code under test. */
function tidied(op) {
  const out = [];
  for (const part of op) {
    const last = out[out.length - 1];
    if (typeof part === "string" && last < 0 && typeof last === "number") {
      out.pop();
      if (typeof out[out.length - 1] === "string") out[out.length - 1] += part;
      else out.push(part);
      out.push(last);
    } else if (out.length > 0 && kind(last) === kind(part)) {
      out[out.length - 1] = last + part;
    } else {
      out.push(part);
    }
  }
  return out;
}

test("apply", () => {
  assert.equal(apply("abcde", ["Hi ", 3, -2]), "Hi abc");
  assert.equal(apply("", []), "");
  assert.equal(apply("", ["x"]), "x");
  assert.equal(apply("ab", [1, "x", "y", 0, "", 1]), "axyb");
  for (const op of [[], [4], [2], [3, -1], [-4], ["x", 2]]) {
    assert.throws(() => apply("abc", op), OperationError, show(op));
  }
});

test("invert", () => {
  for (const op of operations(3, "X")) {
    assert.equal(apply(apply("abc", op), invert(op, "abc")), "abc", show(op));
  }
});

test("inverted operations are tidy", () => {
  for (const op of operations(3, "X")) {
    assert.ok(isTidy(invert(op, "abc")), show(op, invert(op, "abc")));
  }
  assert.deepEqual(invert([1, -1, "x"], "ab"), [1, "b", -1]);
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
  assert.deepEqual([one.revision, other.revision, server.revision], [2, 2, 2]);
  assert.ok(one.isSettled && other.isSettled);
});

test("a link keeps the order", () => {
  const link = new Link();
  const seen = [];
  link.send(() => seen.push(1));
  link.send(() => seen.push(2));
  assert.deepEqual([link.deliver(), link.length, link.deliver(), link.deliver(), seen], [true, 1, true, false, [1, 2]]);
});

test("compose: a letter typed and taken away", () => {
  assert.deepEqual(compose(["abc", 2], [1, -1, 3]), ["ac", 2]);
  assert.deepEqual(compose(["abc"], [-3]), []);
  assert.deepEqual(compose([1, "abc", 1], [-2, 2, -1]), ["bc", -2]);
});

test("compose: parts of deletions", () => {
  assert.deepEqual(compose([2, -3, 1], [1, -2]), [1, -5]);
  assert.deepEqual(compose([-2, 2], [-2]), [-4]);
  assert.deepEqual(compose([5], [1, -3, 1]), [1, -3, 1]);
  assert.deepEqual(compose([1, -1, 3], [2, -2]), [1, -1, 1, -2]);
});

test("compose: all small operations", () => {
  for (const text of ["", "a", "ab"]) {
    for (const a of operations(text.length, "X")) {
      const middle = apply(text, a);
      for (const b of operations(middle.length, "Y")) {
        const both = compose(a, b);
        assert.equal(apply(text, both), apply(middle, b), show(text, a, b, both));
      }
    }
  }
});

test("compose: results are tidy", () => {
  for (const a of operations(2, "X")) {
    for (const b of operations(apply("ab", a).length, "Y")) {
      assert.ok(isTidy(compose(a, b)), show(a, b, compose(a, b)));
    }
  }
});

test("compose: operations that do not fit", () => {
  assert.throws(() => compose([3], [2]), OperationError);
  assert.throws(() => compose([2, "x"], [4]), OperationError);
  assert.throws(() => compose([], [-1]), OperationError);
});

test("transform: the text of the first comes first", () => {
  assert.deepEqual(transform(["x"], ["y"]), [["x", 1], [1, "y"]]);
  assert.deepEqual(transform([1, "xx", 1], [1, "y", 1]), [[1, "xx", 2], [3, "y", 1]]);
  const [a2, b2] = transform([1, "A", 1], [1, "B", 1]);
  assert.deepEqual([apply("1B2", a2), apply("1A2", b2)], ["1AB2", "1AB2"]);
});

test("transform: typing inside of what is deleted", () => {
  assert.deepEqual(transform([-6], [3, "x", 3]), [[-3, 1, -3], ["x"]]);
  assert.deepEqual(transform([3, "x", 3], [-6]), [["x"], [-3, 1, -3]]);
});

test("transform: both delete", () => {
  assert.deepEqual(transform([-3, 2], [2, -3]), [[-2], [-2]]);
  assert.deepEqual(transform([-5], [1, -3, 1]), [[-2], []]);
  assert.deepEqual(transform([-2], [-2]), [[], []]);
});

test("transform: all small operations lead to the same text", () => {
  for (const text of ["", "a", "ab", "abc"]) {
    const own = [...operations(text.length, "X")];
    const others = [...operations(text.length, "Y")];
    for (const a of own) {
      for (const b of others) {
        const [a2, b2] = transform(a, b);
        const results = [apply(apply(text, a), b2), apply(apply(text, b), a2)];
        assert.equal(results[0], results[1], show(text, a, b, a2, b2));
        const kept = [...text].filter((_, index) => survives(a, index) && survives(b, index));
        assert.equal(results[0].replace(/[XY]/g, ""), kept.join(""), show(text, a, b));
        const inserted = [...a, ...b].filter((part) => typeof part === "string").join("");
        assert.equal([...results[0].replace(/[^XY]/g, "")].sort().join(""), [...inserted].sort().join(""), show(text, a, b));
        if (text === "") assert.ok(!results[0].includes("YX"), show(a, b));
      }
    }
  }
});

function survives(op, index) {
  let position = 0;
  for (const part of op) {
    if (typeof part === "number") {
      position += Math.abs(part);
      if (index < position) return part > 0;
    }
  }
  return false;
}

test("transform: results are tidy", () => {
  for (const a of operations(3, "X")) {
    for (const b of operations(3, "Y")) {
      for (const op of transform(a, b)) {
        assert.ok(isTidy(op), show(a, b, op));
      }
    }
  }
});

test("transform: operations that do not fit", () => {
  assert.throws(() => transform([3], [2]), OperationError);
  assert.throws(() => transform([], [1, "x"]), OperationError);
});

test("transform and compose go together", () => {
  // One against two in a row is one against both of them together.
  for (const a of operations(2, "X")) {
    for (const b of operations(2, "Y")) {
      const middle = apply("ab", b);
      for (const c of [[middle.length, "Z"], ["Z", middle.length], middle.length > 0 ? [-1, middle.length - 1].filter((n) => n !== 0) : ["Z"]]) {
        const [a2] = transform(a, b);
        const [a3] = transform(a2, c);
        const [whole] = transform(a, compose(b, c));
        const text = apply(apply("ab", b), c);
        assert.equal([...apply(text, a3)].sort().join(""), [...apply(text, whole)].sort().join(""), show(a, b, c));
      }
    }
  }
});

test("operations that are not tidy are taken", () => {
  assert.deepEqual(compose([1, 1, "", "x", 0, -1, -1], [1, 0, 2, ""]), [2, "x", -2]);
  assert.deepEqual(transform([1, 0, 1, "x", "y"], ["", -1, "z", -1]), [[1, "xy"], ["z", -2, 2]]);
  assert.deepEqual(compose([-1, "x"], [1]), ["x", -1]);
});

test("texts that look like numbers", () => {
  assert.deepEqual(compose(["-1", 2], [2, "-2", 2]), ["-1-2", 2]);
  assert.deepEqual(compose([2, "-5"], [2, -1, 1]), [2, "5"]);
  assert.deepEqual(transform(["-3", 1], ["5", -1]), [["-3", 1], [2, "5", -1]]);
  assert.deepEqual(compose(["-1"], [2, "-"]), ["-1-"]);
  assert.deepEqual(invert([-2, 1], "-1x"), ["-1", 1]);
});

/** A server, clients, and helpers to let messages arrive. */
function session(text, size) {
  const server = new Server(text);
  const clients = Array.from({ length: size }, () => new Client(server));
  return {
    server,
    clients,
    all: () => {
      let moved = true;
      while (moved) {
        moved = false;
        for (const client of clients) {
          moved = client.toServer.deliver() || moved;
          moved = client.fromServer.deliver() || moved;
        }
      }
    },
    check: (expected) => {
      for (const client of clients) {
        assert.equal(client.text, server.text);
        assert.equal(client.revision, server.revision);
        assert.ok(client.isSettled);
      }
      if (expected !== undefined) {
        assert.equal(server.text, expected);
      }
    },
  };
}

test("session: typing at the same place", () => {
  const { clients, all, check } = session("ab", 2);
  const [one, other] = clients;
  one.edit([1, "one", 1]);
  other.edit([1, "other", 1]);
  assert.deepEqual([one.text, other.text], ["aoneb", "aotherb"]);
  other.toServer.deliver();
  one.toServer.deliver();
  all();
  check("aotheroneb");
});

test("session: typing into a paragraph that is deleted", () => {
  const { clients, all, check } = session("one two three", 2);
  const [one, other] = clients;
  one.edit([4, -9]);
  other.edit([7, "!", 6]);
  all();
  check("one !");
});

test("session: typed and taken away before it is acknowledged", () => {
  const { clients, all, check } = session("", 2);
  const [one] = clients;
  one.edit(["x"]);
  one.edit([1, "abc"]);
  one.edit([2, -1, 1]);
  assert.equal(one.text, "xac");
  all();
  check("xac");
});

test("session: only one operation at a time", () => {
  const { server, clients, all, check } = session("", 2);
  const [one] = clients;
  for (const letter of "abcdef") {
    one.edit([...(one.text === "" ? [] : [one.text.length]), letter]);
  }
  assert.equal(one.toServer.length, 1);
  all();
  check("abcdef");
  assert.equal(server.revision, 2);
});

test("session: waiting edits and somebody else's operation", () => {
  const { clients, all, check } = session("0123456789", 3);
  const [one, two, three] = clients;
  one.edit([2, "A", 8]);
  one.edit([6, "B", 5]);
  two.edit([-4, 6]);
  three.edit([10, "end"]);
  two.toServer.deliver();
  three.toServer.deliver();
  one.fromServer.deliver();
  one.edit([1, -1, ...(one.text.length > 2 ? [one.text.length - 2] : [])]);
  one.fromServer.deliver();
  assert.equal(one.text.includes("A"), true);
  all();
  check();
});

test("session: waiting edits in detail", () => {
  const { clients, all, check } = session("abc", 2);
  const [one, other] = clients;
  one.edit([3, "1"]);
  one.edit([4, "2"]);
  other.edit(["xyz", 3]);
  other.toServer.deliver();
  one.fromServer.deliver();
  assert.equal(one.text, "xyzabc12");
  one.edit([8, "3"]);
  assert.equal(one.text, "xyzabc123");
  all();
  check("xyzabc123");
});

test("session: a client that is far behind", () => {
  const { server, clients, all, check } = session("abcdef", 3);
  const [one, two, late] = clients;
  late.edit([3, "LATE", 3]);
  for (let turn = 0; turn < 20; turn += 1) {
    one.edit([`${turn % 10}`, one.text.length]);
    two.edit([two.text.length - 1, -1, "z"]);
    one.toServer.deliver();
    two.toServer.deliver();
    while (one.fromServer.deliver() || two.fromServer.deliver());
  }
  assert.equal(server.revision, 40);
  all();
  check();
  assert.match(server.text, /^\d{20}abcLATE/);
});

test("session: two that are behind", () => {
  const { clients, all, check } = session("", 4);
  const [one, two, three, four] = clients;
  for (const client of clients) client.edit(["abcd"[clients.indexOf(client)]]);
  for (const client of [four, two]) client.toServer.deliver();
  two.fromServer.deliver();
  two.fromServer.deliver();
  two.edit([2, "!"]);
  for (const client of [three, two, one]) client.toServer.deliver();
  all();
  check();
  assert.equal([...one.text].sort().join(""), "!abcd");
  assert.ok(one.text.startsWith("db"));
});

test("session: who joins later", () => {
  const { server, clients, all, check } = session("ab", 1);
  clients[0].edit([2, "c"]);
  all();
  clients.push(new Client(server));
  clients[1].edit([3, "d"]);
  clients[0].edit(["0", 3]);
  all();
  check("0abcd");
});

test("session: a revision that does not exist", () => {
  const server = new Server("a");
  for (const revision of [-1, 1, undefined]) {
    assert.throws(() => server.receive(null, revision, [1]), OperationError);
  }
});

test("session: the history is what the server has done", () => {
  const { server, clients, all } = session("abc", 3);
  clients[0].edit(["x", 3]);
  clients[1].edit([3, "y"]);
  clients[2].edit([-3]);
  all();
  assert.equal(server.history.reduce((text, op) => apply(text, op), "abc"), server.text);
});

test("session: many people, messages at random", () => {
  let seed = 12345;
  const random = (limit) => {
    seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
    return (seed >>> 8) % limit;
  };
  for (let round = 0; round < 150; round += 1) {
    const { clients, all, check } = session("The quick brown fox".slice(0, random(20)), 2 + random(4));
    for (let step = 0; step < 60; step += 1) {
      const client = clients[random(clients.length)];
      const action = random(4);
      if (action === 0) {
        const { length } = client.text;
        const start = random(length + 1);
        const cut = random(Math.min(5, length - start + 1));
        const text = random(3) === 0 ? "" : "-12".slice(0, 1 + random(3));
        client.edit([start, text, -cut, length - start - cut].filter((part) => part !== 0 && part !== ""));
      } else if (action === 1) {
        client.toServer.deliver();
      } else {
        client.fromServer.deliver();
      }
    }
    all();
    check();
  }
});

console.log(`1..${count}`);
