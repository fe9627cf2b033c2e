"use strict";

const { Herald } = require("./herald");

module.exports = { Herald };
