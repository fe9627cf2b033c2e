#!/bin/bash
printf 'red\ngreen\nblue\n' >out/lines.txt
