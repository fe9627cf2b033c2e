"use strict";

const { Client } = require("./client");
const { compose } = require("./compose");
const { Link } = require("./link");
const { OperationError, apply, invert } = require("./operation");
const { Server } = require("./server");
const { transform } = require("./transform");

module.exports = { Client, Link, OperationError, Server, apply, compose, invert, transform };
