#!/bin/bash
echo build >>log.txt
