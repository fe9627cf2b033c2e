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

/** Checks a text against plain objects and lists. */
function check(text, expected) {
  assert.equal(JSON.stringify(parse(text)), JSON.stringify(expected), text);
}

test("plain pairs", () => {
  check("a=1&b=two", { a: "1", b: "two" });
  check("?a=1", { a: "1" });
});

test("empty pairs and values", () => {
  check("", {});
  check("?", {});
  check("&&a=1&", { a: "1" });
  check("a&b=", { a: "", b: "" });
});

test("only the first question mark and equals sign count", () => {
  check("a=1=2", { a: "1=2" });
  check("a==", { a: "=" });
  check("??a=b?", { "?a": "b?" });
});

test("nested", () => {
  check("u[name]=Ada&u[l][]=fr&u[l][]=en&u[a][b][c]=1", { u: { name: "Ada", l: ["fr", "en"], a: { b: { c: "1" } } } });
});

test("blanks and percent encoding", () => {
  check("q=a+b%20c&x+y=1&caf%C3%A9=%E2%82%AC", { q: "a b c", "x y": "1", "café": "€" });
  check("q=1%2B1", { q: "1+1" });
});

test("encoded separators do not separate", () => {
  check("q=R%26D", { q: "R&D" });
  check("a%3Db=c%3Dd%26e", { "a=b": "c=d&e" });
  check("%3Fa=1", { "?a": "1" });
  check("a=%2541", { a: "%41" });
});

test("encoded brackets are plain text", () => {
  check("a%5Bb%5D=1", { "a[b]": "1" });
  check("a[b%5D]=1", { a: { "b]": "1" } });
  check("a[%5B]=1&a[+]=2", { a: { "[": "1", " ": "2" } });
  check("a%5B[b]=1", { "a[": { b: "1" } });
});

test("what is not valid encoding is kept", () => {
  check("a=100%&b=%zz&%=1", { a: "100%", b: "%zz", "%": "1" });
  check("a=%C3", { a: "%C3" });
  check("a=%41%&b=x", { a: "A%", b: "x" });
  check("a=%C3%A9+100%+%C3", { a: "é 100% %C3" });
  check("a[%]=1", { a: { "%": "1" } });
});

test("names that occur more than once", () => {
  check("tag=a&tag=b&tag=c", { tag: ["a", "b", "c"] });
  check("o[t]=a&o[t]=b", { o: { t: ["a", "b"] } });
  check("t=a&t[]=b&t=c", { t: ["a", "b", "c"] });
  check("t[]=a&t=b", { t: ["a", "b"] });
});

test("lists of objects and of lists", () => {
  check("a[][x]=1&a[][x]=2&a[][y]=3", { a: [{ x: "1" }, { x: "2" }, { y: "3" }] });
  check("a[][]=1&a[][]=2", { a: [["1"], ["2"]] });
});

test("numbers are ordinary keys", () => {
  check("a[0]=x&a[1]=y", { a: { 0: "x", 1: "y" } });
});

test("brackets that are not in pairs", () => {
  for (const name of ["a[b", "a]b", "a[b]c", "a[b]]", "a[[b]]", "[a]", "[", "]", "a[b][", "a[]x"]) {
    check(`${name}=1`, { [name]: "1" });
  }
});

test("nesting has an end", () => {
  check("a[1][2][3][4][5][6][7][8]=x", { a: { 1: { 2: { 3: { 4: { 5: { 6: { 7: { 8: "x" } } } } } } } } });
  check("a[1][2][3][4][5][6][7][8][9]=x", { "a[1][2][3][4][5][6][7][8][9]": "x" });
  check("a[1][2][3][4][5][6][7][8][]=x", { "a[1][2][3][4][5][6][7][8][]": "x" });
});

test("the first of contradicting pairs decides", () => {
  check("a=1&a[b]=2", { a: "1" });
  check("a[b]=2&a=1", { a: { b: "2" } });
  check("a[b]=1&a[]=2&a[c]=3", { a: { b: "1", c: "3" } });
  check("a[]=1&a[b]=2&a[]=3", { a: ["1", "3"] });
  check("a=1&a=2&a[b]=3", { a: ["1", "2"] });
  check("a[b][c]=1&a[b]=2", { a: { b: { c: "1" } } });
  check("a[b]=1&a[b][c]=2&x=y", { a: { b: "1" }, x: "y" });
  check("a[]=1&a[length]=9&a[push]=x&a[0]=y", { a: ["1"] });
});

test("nothing gets into other objects", () => {
  for (const text of ["__proto__[isAdmin]=1", "a[__proto__][isAdmin]=1", "constructor[prototype][isAdmin]=1", "a[constructor][prototype][isAdmin]=1", "a[]=1&a[__proto__][isAdmin]=1", "__proto__=1"]) {
    parse(text);
    assert.equal({}.isAdmin, undefined, text);
    assert.equal([].isAdmin, undefined, text);
  }
});

test("names of old are ordinary keys", () => {
  for (const name of ["__proto__", "constructor", "toString", "hasOwnProperty", "valueOf"]) {
    const result = parse(`${name}=1&${name}=2&o[${name}][x]=3`);
    assert.deepEqual(Object.keys(result), [name, "o"]);
    assert.deepEqual(result[name], ["1", "2"]);
    assert.deepEqual(Object.keys(result.o), [name]);
    assert.equal(result.o[name].x, "3");
  }
});

test("the objects have no prototype", () => {
  const result = parse("a[b]=1");
  assert.equal(Object.getPrototypeOf(result), null);
  assert.equal(Object.getPrototypeOf(result.a), null);
  assert.equal(result.toString, undefined);
});

test("stringify: structure", () => {
  assert.equal(stringify({ page: 2, user: { name: "Ada", langs: ["fr", "en"] } }), "page=2&user[name]=Ada&user[langs][]=fr&user[langs][]=en");
  assert.equal(stringify({ a: [[1, 2], [{ b: 3 }]] }), "a[][]=1&a[][]=2&a[][][b]=3");
});

test("stringify: values", () => {
  assert.equal(stringify({ a: true, b: null, c: undefined, d: () => 1, e: {}, f: [], g: 10n, h: 0, i: "" }), "a=true&b=&g=10&h=0&i=");
  assert.equal(stringify({ d: new Date(0) }), "d=1970-01-01T00%3A00%3A00.000Z");
});

test("stringify: values are encoded", () => {
  assert.equal(stringify({ q: "R&D = 1+1 é" }), "q=R%26D%20%3D%201%2B1%20%C3%A9");
});

test("stringify: keys are encoded", () => {
  assert.equal(stringify({ "a&b": 1, "x y": { "[k]=": [2] } }), "a%26b=1&x%20y[%5Bk%5D%3D][]=2");
  assert.equal(stringify({ "a[b]": 1 }), "a%5Bb%5D=1");
});

test("there and back", () => {
  for (const object of [
    { "R&D": { "100%": ["+", " ", "é€😀", "a=b", "[x]", "%41"] } },
    { "a[b]": "1", a: { "]": "x", "[": "y" } },
    { "?": "?", "#": { "&": "&" } },
  ]) {
    assert.equal(JSON.stringify(parse(stringify(object))), JSON.stringify(object));
  }
});

test("parse leaves nothing behind between calls", () => {
  check("a[b]=1", { a: { b: "1" } });
  check("a[c]=2", { a: { c: "2" } });
});

console.log(`1..${count}`);
