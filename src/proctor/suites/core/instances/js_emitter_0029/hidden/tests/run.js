"use strict";
// Prints TAP.

const assert = require("node:assert");
const { Herald } = require("../lib");

// A promise that nobody waits for any more, as its test has failed already, must not end the program.
process.on("unhandledRejection", () => {});

const tests = [];
const test = (name, body) => tests.push([name, body]);

/** A herald, a list, and a function that makes listeners which write to the list. */
function setUp() {
  const seen = [];
  return { herald: new Herald(), seen, say: (label) => () => void seen.push(label) };
}

/** Fails instead of waiting for ever: nothing here takes more than a few turns of the event loop. */
function settled(promise) {
  const late = (async () => {
    for (let turn = 0; turn < 20; turn += 1) {
      await new Promise(setImmediate);
    }
    throw new Error("is not settled");
  })();
  return Promise.race([promise, late]);
}

test("listeners are called with payload and topic", () => {
  const { herald, seen } = setUp();
  herald.on("a.b", (payload, topic) => seen.push([payload, topic]));
  assert.equal(herald.emit("a.b", 1), 1);
  assert.equal(herald.emit("a.c", 2), 0);
  assert.equal(herald.emit("a", 3), 0);
  assert.deepEqual(seen, [[1, "a.b"]]);
});

test("wildcards", () => {
  const cases = {
    "*": [["a", "x1"], ["a.b"]],
    "**": [["a", "a.b", "a.b.c"], []],
    "a.*": [["a.b", "a.c"], ["a", "a.b.c", "b.a", "ab"]],
    "a.**": [["a.b", "a.b.c"], ["a", "b.a.c", "ab.c"]],
    "*.b": [["a.b"], ["b", "a.b.c"]],
    "a.*.*": [["a.b.c"], ["a.b", "a.b.c.d"]],
    "*.x.*": [["a.x.c"], ["a.b.c", "x"]],
    "*.**": [["a.b", "a.b.c"], ["a"]],
  };
  for (const [pattern, [yes, no]] of Object.entries(cases)) {
    const herald = new Herald();
    herald.on(pattern, () => {});
    for (const topic of yes) assert.equal(herald.emit(topic), 1, `${pattern} ${topic}`);
    for (const topic of no) assert.equal(herald.emit(topic), 0, `${pattern} ${topic}`);
  }
});

test("other characters are compared as they are", () => {
  for (const topic of ["price.$", "a+b.c", "(x)", "[a-z]", "a|b", "^", "\\d", "a*b.c", "***.x", "line\nbreak", " "]) {
    const herald = new Herald();
    herald.on(topic, () => {});
    assert.equal(herald.emit(topic), 1, topic);
    assert.equal(herald.emit("axb"), 0, topic);
    assert.equal(herald.emit("axb.c"), 0, topic);
    assert.equal(herald.emit("5"), 0, topic);
  }
  const herald = new Herald();
  herald.on("a.b", () => {});
  assert.equal(herald.emit("axb"), 0);
});

test("what is not a topic", () => {
  const { herald } = setUp();
  for (const topic of ["", ".", "a.", ".a", "a..b", "*", "a.*", "a.**", "**", undefined, null, 5]) {
    assert.throws(() => herald.emit(topic), TypeError, String(topic));
  }
  for (const pattern of ["", ".", "a.", ".a", "a..b", "**.a", "a.**.b", "**.**", undefined, 5]) {
    assert.throws(() => herald.on(pattern, () => {}), TypeError, String(pattern));
    assert.throws(() => herald.once(pattern, () => {}), TypeError, String(pattern));
  }
  assert.throws(() => herald.on("a", "not a function"), TypeError);
  assert.equal(herald.size, 0);
});

test("in the order in which they were added", () => {
  const { herald, seen, say } = setUp();
  herald.on("a.*", say(1));
  herald.on("a.b", say(2));
  herald.on("a.*", say(3));
  herald.once("**", say(4));
  herald.on("a.b", say(5));
  assert.equal(herald.emit("a.b"), 5);
  assert.deepEqual(seen, [1, 2, 3, 4, 5]);
});

test("first ones", () => {
  const { herald, seen, say } = setUp();
  herald.on("a", say(1));
  herald.on("*", say(2), { first: true });
  herald.once("a", say(3), { first: true });
  herald.on("a", say(4));
  herald.emit("a");
  assert.deepEqual(seen, [3, 2, 1, 4]);
});

test("off takes away the one that was added last", () => {
  const { herald, seen, say } = setUp();
  const twice = say("twice");
  herald.on("a", twice);
  herald.on("a", say("between"));
  herald.on("a", twice);
  assert.equal(herald.off("a", twice), true);
  herald.emit("a");
  assert.deepEqual(seen, ["twice", "between"]);
  assert.equal(herald.off("a", twice), true);
  assert.equal(herald.off("a", twice), false);
  assert.equal(herald.off("*", say("x")), false);
  assert.equal(herald.size, 1);
});

test("off and first ones", () => {
  const { herald, seen, say } = setUp();
  const twice = say("twice");
  herald.on("a", twice);
  herald.on("a", say("between"));
  herald.on("a", twice, { first: true });
  herald.off("a", twice);
  herald.emit("a");
  assert.deepEqual(seen, ["twice", "between"]);
  assert.equal(herald.size, 2);
  const other = new Herald();
  const order = [];
  const same = () => order.push("same");
  other.on("a", () => order.push("start"));
  other.on("a", same, { first: true });
  other.on("a", same);
  other.off("a", same);
  other.emit("a");
  assert.deepEqual(order, ["same", "start"]);
});

test("off goes by the pattern", () => {
  const { herald, say } = setUp();
  const listener = say(1);
  herald.on("a.*", listener);
  assert.equal(herald.off("a.b", listener), false);
  assert.equal(herald.off("a.*", listener), true);
});

test("each returned function belongs to its own registration", () => {
  const { herald, seen, say } = setUp();
  const twice = say("twice");
  const off = herald.on("a", twice);
  herald.on("a", say("between"));
  herald.on("a", twice);
  off();
  off();
  herald.emit("a");
  assert.deepEqual(seen, ["between", "twice"]);
});

test("once", () => {
  const { herald, seen, say } = setUp();
  herald.once("a.*", say(1));
  assert.deepEqual([herald.emit("a.b"), herald.emit("a.c")], [1, 0]);
  assert.deepEqual(seen, [1]);
  assert.equal(herald.size, 0);
});

test("once and off", () => {
  const { herald, seen, say } = setUp();
  const listener = say(1);
  herald.once("a", listener);
  assert.equal(herald.off("a", listener), true);
  const off = herald.once("a", listener);
  off();
  herald.emit("a");
  assert.deepEqual([seen, herald.size], [[], 0]);
});

test("once is taken away before it is called", () => {
  const { herald, seen } = setUp();
  let depth = 0;
  herald.once("a", () => {
    seen.push(herald.size);
    depth += 1;
    if (depth < 5) herald.emit("a");
  });
  herald.emit("a");
  assert.deepEqual(seen, [0]);
});

test("once that throws is gone", () => {
  const { herald } = setUp();
  herald.once("a", () => {
    throw new Error("x");
  });
  assert.throws(() => herald.emit("a"), /x/);
  assert.equal(herald.emit("a"), 0);
});

test("a listener that takes itself away", () => {
  const { herald, seen, say } = setUp();
  const off = herald.on("a", () => {
    seen.push("self");
    off();
  });
  herald.on("a", say("next"));
  herald.on("a", say("last"));
  herald.emit("a");
  herald.emit("a");
  assert.deepEqual(seen, ["self", "next", "last", "next", "last"]);
});

test("a listener that takes others away", () => {
  const { herald, seen, say } = setUp();
  const before = herald.on("a", say("before"));
  herald.on("*", () => {
    before();
    after();
    seen.push("killer");
  });
  const after = herald.on("a", say("after"));
  herald.on("a", say("end"));
  assert.equal(herald.emit("a"), 3);
  assert.deepEqual(seen, ["before", "killer", "end"]);
});

test("a listener that takes one away and adds it again", () => {
  const { herald, seen, say } = setUp();
  const again = say("again");
  herald.on("a", () => {
    herald.off("a", again);
    herald.on("a", again);
  });
  herald.on("a", again);
  assert.equal(herald.emit("a"), 1);
  assert.deepEqual(seen, []);
  herald.emit("a");
  assert.equal(herald.size, 2);
});

test("a listener that adds others", () => {
  const { herald, seen, say } = setUp();
  herald.on("a", () => {
    seen.push("adder");
    if (herald.size < 4) {
      herald.on("a", say("late"));
      herald.on("**", say("late too"));
      herald.on("a", say("early"), { first: true });
    }
  });
  assert.equal(herald.emit("a"), 1);
  assert.deepEqual(seen, ["adder"]);
  herald.emit("a");
  assert.deepEqual(seen.slice(1), ["early", "adder", "late", "late too"]);
});

test("events within events", () => {
  const { herald, seen, say } = setUp();
  herald.on("a", () => {
    seen.push("a1");
    herald.emit("b");
  });
  herald.on("a", say("a2"));
  herald.on("b", say("b"));
  herald.emit("a");
  assert.deepEqual(seen, ["a1", "b", "a2"]);
});

test("a once listener between nested events", () => {
  const { herald, seen } = setUp();
  let nested = false;
  herald.on("a", () => {
    if (!nested) {
      nested = true;
      herald.emit("a", "inner");
    }
  });
  herald.once("a", (payload) => seen.push(payload));
  herald.emit("a", "outer");
  assert.deepEqual(seen, ["inner"]);
});

test("errors do not stop the others", () => {
  const { herald, seen, say } = setUp();
  herald.on("a", say(1));
  herald.on("*", () => {
    throw new Error("first");
  });
  herald.on("a", () => {
    throw new Error("second");
  });
  herald.on("a", say(2));
  assert.throws(() => herald.emit("a"), /first/);
  assert.deepEqual(seen, [1, 2]);
});

test("also odd errors are errors", () => {
  const { herald, seen, say } = setUp();
  herald.on("a", () => {
    throw undefined;
  });
  herald.on("a", say(1));
  let thrown = false;
  try {
    herald.emit("a");
  } catch (error) {
    thrown = error === undefined;
  }
  assert.deepEqual([thrown, seen], [true, [1]]);
});

test("heralds do not know each other", () => {
  const one = new Herald();
  one.on("a", () => {});
  assert.equal(new Herald().emit("a"), 0);
});

test("next", async () => {
  const { herald } = setUp();
  const promise = herald.next("a.*");
  const same = herald.next("a.*");
  assert.equal(herald.size, 2);
  assert.equal(herald.emit("a.b", 5), 2);
  assert.equal(herald.emit("a.c", 6), 0);
  assert.deepEqual(await settled(promise), [5, "a.b"]);
  assert.deepEqual(await settled(same), [5, "a.b"]);
  assert.equal(herald.size, 0);
});

test("next with a signal that is aborted", async () => {
  const { herald } = setUp();
  const controller = new AbortController();
  const promise = herald.next("a", { signal: controller.signal });
  const reason = new Error("enough");
  controller.abort(reason);
  assert.equal(herald.size, 0);
  await assert.rejects(settled(promise), (error) => error === reason);
  assert.equal(herald.emit("a"), 0);
});

test("next with a signal that was aborted before", async () => {
  const { herald } = setUp();
  const reason = new Error("too late");
  const promise = herald.next("a", { signal: AbortSignal.abort(reason) });
  await assert.rejects(settled(promise), (error) => error === reason);
  assert.equal(herald.size, 0);
});

test("next with a signal that is aborted afterwards", async () => {
  const { herald, say } = setUp();
  const controller = new AbortController();
  const { signal } = controller;
  const promise = herald.next("a", { signal });
  herald.on("a", say(1));
  herald.emit("a", 7);
  controller.abort();
  assert.deepEqual(await settled(promise), [7, "a"]);
  assert.equal(herald.size, 1);
});

test("next with a pattern that is none", async () => {
  const { herald } = setUp();
  const controller = new AbortController();
  await assert.rejects(async () => settled(herald.next("a..b", { signal: controller.signal })), TypeError);
  assert.equal(herald.size, 0);
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
      console.log(String(error && error.message).replace(/^/gm, "# "));
    }
  }
  console.log(`1..${count}`);
})();
