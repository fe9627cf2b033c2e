#!/bin/bash
echo plan >>log.txt
