#!/bin/bash
printf '19\n23\n' >numbers.txt
