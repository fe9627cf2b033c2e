"use strict";

/** Throws a TypeError if this is not a topic. */
function checkTopic(topic) {
  if (typeof topic !== "string" || topic === "") {
    throw new TypeError(`not a topic: ${String(topic)}`);
  }
}

function matches(pattern, topic) {
  const source = pattern.replace("**", ".+").replace("*", "[^.]+");
  return new RegExp(`^${source}$`).test(topic);
}

module.exports = { checkTopic, matches };
