"use strict";

const { FormulaError } = require("./errors");
const { evaluate } = require("./evaluate");
const { format } = require("./format");
const { parse } = require("./parse");

module.exports = { FormulaError, evaluate, format, parse };
