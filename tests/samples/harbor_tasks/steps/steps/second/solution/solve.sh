#!/bin/bash
echo beta >>log.txt
